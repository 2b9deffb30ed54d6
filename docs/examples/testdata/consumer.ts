// What somebody who uses the types writes: it must compile under --strict, and what is marked must not.
import type {
  ConversationState, Envelope, Event, Methods, Notification, Part, PermissionOutcome, Request, RunConfig, ToolState, UnknownEvent,
} from '../schema/agent-server';

declare function call<M extends keyof Methods>(method: M, params: Methods[M]['params']): Promise<Methods[M]['result']>;

const config: RunConfig = { harness: 'mock', cwd: '/tmp', thinkingLevel: 'low', mcpServers: { files: { type: 'stdio', command: 'files' } } };
// @ts-expect-error: the set of permission modes is closed
const wrong: RunConfig = { harness: 'mock', cwd: '/tmp', permissionMode: 'yolo' };

export async function main(): Promise<ConversationState> {
  const hello = await call('initialize', { protocolVersion: 2, client: { name: 'consumer' } });
  const images: boolean = hello.harnesses['mock'].images;
  const { sessionId, turnId } = await call('turn/start', { input: [{ type: 'text', text: 'hi' }], config });
  await call('turn/start', { input: 'hi', config: { ...config, permissionRequests: images } });
  const { outcome } = await call('turn/cancel', { sessionId, turnId });
  if (outcome === 'unconfirmed') console.log(outcome);
  const page = await call('events/replay', { sessionId, fromSeq: 1 });
  if (page.firstAvailableSeq !== null && page.firstAvailableSeq > 1) console.log('evicted');
  for (const envelope of page.events) show(envelope);
  // @ts-expect-error: a method that is not there
  await call('turn/restart', {});
  // @ts-expect-error: a session id is a string
  await call('session/close', { sessionId: 1 });
  return (await call('session/snapshot', { sessionId })).state;
}

export function show({ sessionId, seq, event }: Envelope): string {
  switch (event.type) {
    case 'message.part':
      return part(event.part);
    case 'message.part.delta':
      return event.delta.type === 'tool_input' ? event.delta.input : event.delta.text;
    case 'permission.requested':
      return event.options.map((o) => o.optionId).join() + (event.toolCall?.toolName ?? '');
    case 'turn.ended':
      // @ts-expect-error: it is there only after an error
      event.error.message.length;
      return event.stopReason + (event.error?.category ?? '') + (event.tokens?.cache?.read ?? 0);
    case 'error':
      return event.message;
    default: {
      const other: { type: string } = event as Event | UnknownEvent;
      return `${sessionId} ${seq} ${other.type}`;
    }
  }
}

function part(p: Part): string {
  switch (p.type) {
    case 'text': case 'reasoning':
      return p.text;
    case 'tool':
      return `${p.toolName} ${p.subagent?.description ?? ''} ${tool(p.state)}`;
    case 'image': case 'file':
      return p.mimeType;
  }
}

function tool(s: ToolState): string {
  switch (s.status) {
    case 'pending': return s.partialInput;
    case 'in_progress': return JSON.stringify(s.input);
    case 'completed': return s.output + (s.content?.length ?? 0) + (s.time.end ?? 0);
    case 'failed': return s.error;
    case 'cancelled': return '';
  } // no default: the set is closed, and the compiler knows
}

export function draw(state: ConversationState): string[] {
  return state.timeline.map((e) => e.type === 'message' ? e.message.parts.map((p) => part(p.part)).join('') : e.compaction.summary ?? '');
}

export const allow: PermissionOutcome = { outcome: 'selected', optionId: 'allow' };
export const request: Request = { jsonrpc: '2.0', id: 1, method: 'permission/respond', params: { sessionId: 's', requestId: 'r', outcome: allow } };
export const notify = (n: Notification) => show(n.params);
export { wrong };
declare const console: { log(...all: unknown[]): void };
