// A client of agent-server in plain JavaScript, for browsers and Node: no dependencies, and it heals.
//
//   node --experimental-websocket client.mjs ws://127.0.0.1:8722 mock "say hello"      (Node 22 and later need no flag)
//
// onEvent(sessionId, seq, event) gets every event of every session once, in order. onLost(sessionId, why) says what could not be healed.

export class AgentClient {
  constructor(url, { onEvent, onLost = () => {} }) {
    Object.assign(this, { url, onEvent, onLost });
    this.nextId = 1;
    this.calls = new Map(); // id → {resolve, reject, message, again}
    this.last = new Map(); // sessionId → seq of the last event delivered
    this.held = new Map(); // sessionId → Map of seq → envelope, while a replay runs
    this.over = new Set(); // sessions that were closed
    this.delay = 100;
    this.ready = this.#connect();
  }

  close() {
    this.closed = true;
    this.ws?.close();
  }

  // Whatever was in flight when the connection drops fails, but for turn/start: it is idempotent, so it is sent again.
  async call(method, params) {
    await this.ready;
    return this.#send(method, params, method === 'turn/start');
  }

  startTurn(input, config, sessionId = crypto.randomUUID()) {
    return this.call('turn/start', { sessionId, turnId: crypto.randomUUID(), input, config }).then((ack) => {
      if (!this.last.has(sessionId)) this.last.set(sessionId, 0); // followed from now on, even if its first event is lost
      if (ack.deduplicated) this.#heal(sessionId); // the first answer was lost, and maybe events with it
      return ack;
    });
  }

  // Delivers what comes behind the number seq, that of a snapshot for example.
  follow(sessionId, seq) {
    this.last.set(sessionId, Math.max(seq, this.last.get(sessionId) ?? 0));
    this.#heal(sessionId);
  }

  #send(method, params, again = false) {
    return new Promise((resolve, reject) => {
      const id = this.nextId++;
      const message = JSON.stringify({ jsonrpc: '2.0', id, method, params });
      this.calls.set(id, { resolve, reject, message, again });
      if (this.ws.readyState === WebSocket.OPEN) this.ws.send(message);
      else if (!again) { this.calls.delete(id); reject(new Error('connection lost')); }
    });
  }

  #connect() {
    return new Promise((resolve) => {
      const ws = (this.ws = new WebSocket(this.url));
      ws.onopen = () => this.#opened().then(resolve, () => ws.close());
      ws.onmessage = ({ data }) => this.#received(JSON.parse(data));
      ws.onclose = () => {
        for (const [id, c] of this.calls) if (!c.again || this.closed) { this.calls.delete(id); c.reject(new Error('connection lost')); }
        if (this.closed) return;
        const wait = this.delay * (0.5 + Math.random() / 2);
        this.delay = Math.min(this.delay * 2, 30_000);
        this.ready = new Promise((r) => setTimeout(() => this.closed || this.#connect().then(r), wait));
        this.ready.then(resolve);
      };
    });
  }

  async #opened() {
    this.early = []; // events that come before it is known whose they are
    const hello = await this.#send('initialize', { protocolVersion: 2, client: { name: 'client.mjs' } });
    if (this.instanceId && this.instanceId !== hello.instanceId) { // another process: its logs are not ours
      for (const s of this.last.keys()) this.onLost(s, 'the server was replaced');
      this.last.clear();
    }
    this.instanceId = hello.instanceId;
    this.delay = 100;
    for (const c of this.calls.values()) if (c.again) this.ws.send(c.message);
    for (const s of this.last.keys()) if (!this.over.has(s)) this.#heal(s); // the last thing that we missed may have been the end of a turn
    for (const e of this.early.splice(0)) this.#take(e);
    this.early = null;
  }

  #received({ id, method, params, result, error }) {
    if (method === 'event') return this.early ? this.early.push(params) : this.#take(params);
    const c = this.calls.get(id);
    this.calls.delete(id);
    if (error) c?.reject(Object.assign(new Error(error.message), error));
    else c?.resolve(result);
  }

  #take(envelope) {
    const { sessionId, seq } = envelope;
    const last = this.last.get(sessionId) ?? 0, held = this.held.get(sessionId);
    if (seq === last + 1 || (seq === 1 && last >= 2)) {
      for (let e = envelope; e; e = held?.get(e.seq + 1)) this.#deliver(e);
    } else if (seq > last + 1) {
      if (held) held.set(seq, envelope);
      else this.#heal(sessionId, envelope);
    }
  }

  #deliver({ sessionId, seq, event }) {
    this.last.set(sessionId, seq);
    this.over[event.type === 'session.ended' && event.reason === 'released' ? 'add' : 'delete'](sessionId);
    try { this.onEvent(sessionId, seq, event); } catch (e) { console.error(e); } // a handler's mistake costs no event
  }

  async #heal(sessionId, early) {
    if (this.held.has(sessionId)) return;
    const held = new Map(early ? [[early.seq, early]] : []);
    this.held.set(sessionId, held);
    if (!this.last.has(sessionId)) this.last.set(sessionId, 0);
    try {
      for (;;) {
        const fromSeq = this.last.get(sessionId) + 1;
        const page = await this.#send('events/replay', { sessionId, fromSeq, limit: 1000 });
        const next = page.events.length ? page.firstAvailableSeq : Math.min(...held.keys()); // where the log, or what we hold, goes on
        if (next > fromSeq && next < Infinity) {
          this.onLost(sessionId, `events ${fromSeq} to ${next - 1} are no longer held`);
          this.last.set(sessionId, next - 1);
        }
        for (const e of page.events) this.#take(e);
        if (this.last.get(sessionId) < fromSeq || this.last.get(sessionId) >= page.latestSeq) break; // nothing came, or all is here
      }
    } catch (e) { // refused, or the connection dropped: then the next one heals, what was held included
      held.clear();
      if (e.code === -32001) this.last.delete(sessionId); // the session was closed, and its log is gone
      if (e.code) this.onLost(sessionId, e.message);
    }
    this.held.delete(sessionId);
    for (const e of held.values()) if (e.seq > this.last.get(sessionId)) this.#take(e);
  }
}

// As a program: one turn, its text on stdout, permissions allowed.
if (globalThis.process?.argv[1] && import.meta.url.endsWith(process.argv[1].split('/').pop())) {
  const [url, harness, prompt] = process.argv.slice(2);
  const allow = (sessionId, requestId) => client // once more if the answer is lost: only the first counts
    .call('permission/respond', { sessionId, requestId, outcome: { outcome: 'selected', optionId: 'allow' } })
    .catch((e) => { if (!e.code && !client.closed) return allow(sessionId, requestId); });
  const client = new AgentClient(url, {
    onLost: (session, why) => console.error(`lost: ${session}: ${why}`),
    onEvent: (sessionId, seq, e) => {
      if (process.env.EVENTS) console.log(JSON.stringify({ sessionId, seq, event: e }));
      else if (e.type === 'message.part.delta' && e.delta.type === 'text') process.stdout.write(e.delta.text);
      if (e.type === 'permission.requested') allow(sessionId, e.requestId);
      if (e.type === 'turn.ended') {
        if (!process.env.EVENTS) console.log(`\n${e.stopReason}`);
        client.close();
      }
    },
  });
  await client.startTurn(prompt, { harness, cwd: process.cwd() });
}
