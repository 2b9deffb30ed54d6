// @ts-check
// What a session's events add up to, in plain JavaScript: the ConversationState of session/snapshot, which is also what it may begin with.
//
//   const c = new Conversation(emptyState(sessionId));   // or: new Conversation((await client.call('session/snapshot', { sessionId })).state)
//   c.apply({ sessionId, seq, event });                  // then draw c.state
//
// As a program it folds a recording of one session:    agent-server run --json "hello" | node fold.mjs

/** @typedef {import('../schema/agent-server').ConversationState} State */
/** @typedef {import('../schema/agent-server').Event} Event */
/** @typedef {import('../schema/agent-server').ConversationMessage} Message */
/** @typedef {import('../schema/agent-server').Part} Part */

/** @param {string} sessionId @returns {State} */
export function emptyState(sessionId) {
  return { version: 1, sessionId, seq: 0, activity: 'idle', timeline: [], turns: [], permissions: [], totals: { turns: 0, tokens: { input: 0, output: 0 } } };
}

export class Conversation {
  /** @param {State} state It is changed from here on. */
  constructor(state) {
    this.state = state;
    /** @type {Map<string, Message>} */ this.messages = new Map();
    /** @type {Map<string, {partIndex: number, seq: number, part: Part}>} */ this.parts = new Map();
    this.from = state.timeline.length; // where the active turn begins in the timeline
    for (const [i, e] of state.timeline.entries()) {
      if ((e.type === 'message' ? e.message : e.compaction).turnId === state.activeTurnId) this.from = Math.min(this.from, i);
      if (e.type !== 'message') continue;
      this.messages.set(e.message.messageId, e.message);
      for (const p of e.message.parts) this.parts.set(p.part.id, p);
    }
  }

  /** @param {{seq: number, event: Event}} envelope */
  apply({ seq, event: e }) {
    const s = this.state;
    if (seq <= s.seq) return; // seen
    if (seq > s.seq + 1) (s.gaps ??= []).push({ from: s.seq + 1, to: seq - 1 });
    s.seq = seq;
    this.#fold(seq, e);
    s.activity = this.#activity();
  }

  /** @param {number} seq @param {Event} e */
  #fold(seq, e) {
    const s = this.state;
    switch (e.type) {
      case 'turn.started': {
        if (s.session) delete s.session.ended;
        const origin = /** @type {any} */ (e._meta)?.['agent-server/origin'];
        s.turns.push({ turnId: e.turnId, seq, status: 'running', startedAt: e.timestamp, ...some({ origin, _meta: e._meta }) });
        s.activeTurnId = e.turnId;
        this.from = s.timeline.length;
        break;
      }
      case 'turn.ended':
        return this.#turnEnded(seq, e);
      case 'message.started': {
        const running = this.#turn(seq, e.turnId).status === 'running';
        if (running) this.#closeMessage(e.turnId, e.timestamp);
        this.#message({ messageId: e.messageId, turnId: e.turnId, seq, outputIndex: e.outputIndex, role: e.role, startedAt: e.timestamp, parts: [],
          ...some({ parentToolCallId: e.parentToolCallId, model: e.model, _meta: e._meta, open: running || undefined }) });
        break;
      }
      case 'message.part': { // an upsert, also after its message or turn has ended; it keeps its place
        const known = this.parts.get(e.part.id);
        if (known) known.part = e.part;
        else this.#addPart(seq, e, e.part);
        break;
      }
      case 'message.part.delta': {
        const part = this.parts.get(e.partId)?.part;
        if (e.delta.type === 'tool_input') {
          if (part?.type === 'tool' && part.state.status === 'pending') part.state.partialInput += e.delta.input;
        } else if (e.delta.type === 'text' || e.delta.type === 'reasoning') {
          if (part?.type === e.delta.type && part.state !== 'done') part.text += e.delta.text;
        } else (s.unknown ??= []).push({ seq, event: e });
        break;
      }
      case 'message.ended':
        this.#closeMessage(e.turnId, e.timestamp, e.messageId);
        break;
      case 'permission.requested':
        s.permissions.push({ requestId: e.requestId, turnId: e.turnId, seq, at: e.timestamp, title: e.title, options: e.options, ...some({ toolCall: e.toolCall }) });
        break;
      case 'permission.resolved': {
        const asked = s.permissions.find((p) => p.requestId === e.requestId);
        if (asked && !asked.outcome) Object.assign(asked, { outcome: e.outcome, resolvedAt: e.timestamp });
        break;
      }
      case 'session.created': {
        const { harness, nativeSessionId, model, resumed } = e;
        s.session = { createdAt: e.timestamp, ...s.session, harness, nativeSessionId, ...some({ model, resumed }) };
        delete s.session.ended;
        break;
      }
      case 'session.ended':
        s.session = { harness: '', nativeSessionId: '', createdAt: 0, ...s.session, ended: { reason: e.reason, at: e.timestamp } };
        break;
      case 'session.usage':
        s.usage = { turnId: e.turnId, used: e.used, at: e.timestamp, ...some({ size: e.size, cost: e.cost }) };
        break;
      case 'session.compaction': { // an upsert; the first one fixes its place
        const { compactionId, turnId, status, trigger, preTokens, postTokens, summary, abstractsIds } = e;
        const news = { status, ...some({ trigger, preTokens, postTokens, summary, abstractsIds }) };
        const known = s.timeline.find((t) => t.type === 'compaction' && t.compaction.compactionId === compactionId);
        if (known?.type === 'compaction') Object.assign(known.compaction, news);
        else s.timeline.push({ type: 'compaction', compaction: { compactionId, turnId, seq, at: e.timestamp, ...news } });
        break;
      }
      case 'session.notice': {
        const { turnId, kind, message, progress } = e;
        s.notice = { seq, at: e.timestamp, kind, message, ...some({ turnId, progress }) };
        break;
      }
      case 'error': {
        const { turnId, category, message, recoverable, stack } = e;
        (s.errors ??= []).push({ seq, at: e.timestamp, category, message, recoverable, ...some({ turnId, stack }) });
        break;
      }
      case 'raw':
        break;
      default: // a type that is not known here: keep it in its place
        (s.unknown ??= []).push({ seq, event: e });
    }
  }

  /** @param {number} seq @param {import('../schema/agent-server').TurnEnded} e */
  #turnEnded(seq, e) {
    const s = this.state, at = e.timestamp;
    for (const p of this.#openParts(e.turnId)) p.part = closed(p.part, at);
    this.#closeMessage(e.turnId, at);
    for (const p of s.permissions) if (!p.outcome && p.turnId === e.turnId) Object.assign(p, { outcome: { outcome: 'cancelled' }, resolvedAt: at });
    if (s.notice?.turnId === e.turnId) delete s.notice;
    const { stopReason, finishReason, tokens, cost, error, _meta: endMeta } = e;
    Object.assign(this.#turn(seq, e.turnId), { status: 'ended', endedAt: at, stopReason, ...some({ finishReason, tokens, cost, error, endMeta }) });
    if (s.activeTurnId === e.turnId) delete s.activeTurnId;
    s.totals.turns++;
    if (tokens) add(s.totals.tokens, tokens);
    if (cost) {
      const currency = cost.currency || 'USD', sum = s.totals.costs?.find((c) => c.currency === currency);
      if (sum) sum.amount += cost.amount;
      else (s.totals.costs ??= []).push({ amount: cost.amount, currency });
    }
  }

  /** @param {number} seq @param {string} turnId A turn whose beginning was not seen is made. */
  #turn(seq, turnId) {
    const s = this.state, known = s.turns.findLast((t) => t.turnId === turnId);
    if (known) return known;
    s.turns.push({ turnId, seq, status: s.activeTurnId ? 'lost' : 'running', startedAt: 0 });
    s.activeTurnId ??= turnId;
    return s.turns[s.turns.length - 1];
  }

  /** @param {Message} message */
  #message(message) {
    if (this.messages.has(message.messageId)) return;
    this.messages.set(message.messageId, message);
    this.state.timeline.push({ type: 'message', message });
  }

  /** @param {number} seq @param {import('../schema/agent-server').MessagePart} e @param {Part} part Without its message, it opens one. */
  #addPart(seq, e, part) {
    const { messageId, turnId, outputIndex, partIndex } = e;
    if (!this.messages.has(messageId)) {
      const running = this.#turn(seq, turnId).status === 'running', role = messageId === 'echo-' + turnId ? 'user' : 'assistant';
      this.#message({ messageId, turnId, seq, outputIndex, role, startedAt: 0, parts: [], ...some({ parentToolCallId: part.parentToolCallId, open: running || undefined }) });
    }
    const added = { partIndex, seq, part }, parts = /** @type {Message} */ (this.messages.get(messageId)).parts;
    this.parts.set(part.id, added);
    parts.splice(parts.findLastIndex((p) => p.partIndex <= partIndex) + 1, 0, added);
  }

  /** @param {string} turnId @param {number} at @param {string} [messageId] */
  #closeMessage(turnId, at, messageId) {
    for (const m of this.#ofTurn(turnId)) {
      if (!m.open || (messageId && m.messageId !== messageId)) continue;
      delete m.open;
      m.endedAt = at;
    }
  }

  /** @param {string} turnId Only what came since the latest turn began is looked at: the cost of an event does not grow with the conversation. */
  *#ofTurn(turnId) {
    for (let i = this.from; i < this.state.timeline.length; i++) {
      const e = this.state.timeline[i];
      if (e.type === 'message' && e.message.turnId === turnId) yield e.message;
    }
  }

  /** @param {string} turnId */
  #openParts(turnId) {
    return [...this.#ofTurn(turnId)].flatMap((m) => m.parts).filter((p) => openness(p.part));
  }

  #activity() {
    const { permissions, activeTurnId, turns } = this.state;
    if (permissions.some((p) => !p.outcome)) return 'waiting_for_permission';
    if (!activeTurnId) return turns.at(-1)?.stopReason === 'error' ? 'failed' : 'idle';
    const open = this.#openParts(activeTurnId).map((p) => openness(p.part));
    return /** @type {const} */ (['generating', 'thinking', 'tool_running']).find((a) => open.includes(a)) ?? 'thinking';
  }
}

/** @param {Part} p What an open part says of the agent. */
function openness(p) {
  if (p.type === 'text' && p.state === 'streaming') return 'generating';
  if (p.type === 'reasoning' && p.state === 'streaming') return 'thinking';
  if (p.type === 'tool' && p.state.status === 'pending') return 'generating';
  if (p.type === 'tool' && p.state.status === 'in_progress') return 'tool_running';
}

/** @param {Part} p @param {number} at @returns {Part} An open part as the end of its turn leaves it. */
function closed(p, at) {
  if (p.type === 'text') return { ...p, state: 'done' };
  if (p.type === 'reasoning') return { ...p, state: 'done', ...some({ time: p.time && { start: p.time.start, end: p.time.end || at } }) };
  if (p.type !== 'tool') return p;
  const before = p.state;
  const partial = before.status === 'pending' && before.partialInput ? { 'agent-server/partialInput': before.partialInput } : undefined;
  const _meta = before._meta || partial ? { ...before._meta, ...partial } : undefined;
  const [input, start] = before.status === 'in_progress' ? [before.input, before.time.start] : [{}, at];
  return { ...p, state: { status: 'cancelled', input, time: { start, end: at }, ...some({ _meta }) } };
}

/** @param {any} sum @param {any} more Adds numbers, member by member. */
function add(sum, more) {
  for (const [k, v] of Object.entries(more)) {
    if (typeof v === 'number') sum[k] = (sum[k] ?? 0) + v;
    else if (v && typeof v === 'object') add((sum[k] ??= {}), v);
  }
}

/** @template T @param {T} o @returns {Partial<T>} The members that are there. */
function some(o) {
  return /** @type {any} */ (Object.fromEntries(Object.entries(/** @type {any} */ (o)).filter(([, v]) => v !== undefined && v !== '')));
}

// @ts-ignore
if (globalThis.process?.argv[1] && import.meta.url.endsWith(process.argv[1].split('/').pop())) {
  /** @type {Conversation | undefined} */ let conversation;
  let rest = '';
  // @ts-ignore
  for await (const chunk of process.stdin.setEncoding('utf8')) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const envelope = JSON.parse(line);
      (conversation ??= new Conversation(emptyState(envelope.sessionId))).apply(envelope);
    }
  }
  console.log(JSON.stringify(conversation?.state));
}
