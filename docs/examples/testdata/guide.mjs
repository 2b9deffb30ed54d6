// The JavaScript of docs/consuming.md, run by a test against a server with the mock harness.
import { AgentClient } from '../client.mjs';
import { Conversation, emptyState } from '../fold.mjs';

const url = process.argv[2];
const config = { harness: 'mock', cwd: '/' };
const draw = () => {};
let finished;
const idle = new Promise((resolve) => { finished = resolve; });

const conversations = new Map();
const client = new AgentClient(url, {
  onEvent(sessionId, seq, event) {
    if (seq === 1 || !conversations.has(sessionId)) conversations.set(sessionId, new Conversation(emptyState(sessionId))); // a new log
    const c = conversations.get(sessionId);
    c.apply({ seq, event });
    draw(c.state); // c.state.timeline, c.state.activity, …
    if (event.type === 'permission.requested') ask(sessionId, event);
    if (event.type === 'turn.ended') finished();
  },
  onLost(sessionId, why) { // take a snapshot instead: see below
    console.error(sessionId, why);
  },
});

async function ask(sessionId, { requestId, title, options }) {
  const chosen = options.find((o) => o.kind === 'allow_once'); // what a person chose; an unknown kind is never an approval
  const outcome = { outcome: 'selected', optionId: chosen.optionId };
  const { accepted } = await client.call('permission/respond', { sessionId, requestId, outcome });
  console.log(title, accepted ? 'answered' : 'somebody else was faster'); // permission.resolved comes in either case
}

const prompt = 'ask Bash {"command":"ls"} -> a.txt\nsubagent Explore look around\n  say two files\nsay done';
const { sessionId } = await client.startTurn(prompt, config);
await idle;

function show(state, parent, indent = '') {
  for (const { type, message } of state.timeline) {
    if (type !== 'message' || message.role !== 'assistant' || message.parentToolCallId !== parent) continue;
    for (const { part } of message.parts) {
      if (part.type === 'text') console.log(indent + part.text);
      if (part.type === 'tool') console.log(indent + part.toolName, part.state.status);
      if (part.type === 'tool' && part.subagent) show(state, part.toolCallId, indent + '  '); // what the sub-agent said
    }
  }
}
show(conversations.get(sessionId).state);

const { state } = await client.call('session/snapshot', { sessionId });
const late = new Conversation(state);
client.follow(sessionId, state.seq); // what comes behind the snapshot
console.log('snapshot', late.state.seq === conversations.get(sessionId).state.seq, late.state.timeline.length);
client.close();
