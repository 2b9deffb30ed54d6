// An editor made of the ACP SDK's own client: node client.mjs AGENT CWD. It says "all well", or what went wrong.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const [agent, cwd] = process.argv.slice(2);
const child = spawn(agent, [], { stdio: ["pipe", "pipe", "inherit"] });
const updates = [];
let asked = 0;
const client = acp
  .client({ name: "test-editor" })
  .onRequest(acp.methods.client.session.requestPermission, async ({ params }) => {
    asked++;
    return { outcome: { outcome: "selected", optionId: params.options.find((o) => o.kind === "allow_once").optionId } };
  })
  .onNotification(acp.methods.client.session.update, async ({ params }) => {
    updates.push(params.update);
  });

function check(ok, what) {
  if (!ok) {
    console.log("wrong: " + what + " " + JSON.stringify(updates));
    process.exit(1);
  }
}

await client.connectWith(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)), async (agent) => {
  const { initialize, session } = acp.methods.agent;
  const prompt = (sessionId, text) => agent.request(session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  const init = await agent.request(initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
  check(init.protocolVersion === 1, "version");
  const { sessionId, modes } = await agent.request(session.new, { cwd, mcpServers: [] });
  check(modes.currentModeId === "default", "mode");
  let end = await prompt(sessionId, 'think hm\nsay hello\ntool ls {} -> out\nask rm {"path":"/x"} -> gone\nusage 20 100');
  check(end.stopReason === "end_turn" && asked === 1, "end");
  const text = updates.filter((u) => u.sessionUpdate === "agent_message_chunk").map((u) => u.content.text).join("");
  check(text === "hello", "text");
  check(updates.filter((u) => u.sessionUpdate === "tool_call").length === 2, "tool calls");
  check(updates.filter((u) => u.status === "completed").length === 2, "ends of tool calls");
  await agent.request(session.setMode, { sessionId, modeId: "plan" });
  const running = prompt(sessionId, "say x\nhang");
  setTimeout(() => agent.notify(session.cancel, { sessionId }), 200);
  end = await running;
  check(end.stopReason === "cancelled", "cancel");
  updates.length = 0;
  await agent.request(session.load, { sessionId, cwd, mcpServers: [] });
  check(updates.some((u) => u.sessionUpdate === "user_message_chunk"), "history");
});
console.log("all well");
child.on("exit", (code) => process.exit(code));
child.stdin.end();
