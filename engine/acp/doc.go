// Package acp serves an [engine.Runtime] to an editor as one agent of the Agent Client Protocol, version 1: JSON-RPC 2.0, one object a line. So an
// editor that speaks ACP can run any harness.
//
//	err := acp.Serve(ctx, rt, "claude-code", transport.Stdio(os.Stdin, os.Stdout))
//
// # What becomes what
//
//	| ACP | the engine |
//	|---|---|
//	| session/new | a session id and its configuration; the agent starts at the first prompt |
//	| session/load | a session of this process: its log is replayed as updates, then it goes on |
//	| session/resume | the same without the replay; another id is taken for one of the harness's own |
//	| session/prompt | a turn; its end is the answer |
//	| session/cancel | turn/cancel |
//	| session/set_mode, session/set_config_option | permissionMode and thinkingLevel of the next turn |
//	| session/update | the turn's messages and tool parts. To-do lists become plans; the words of sub-agents are left out, their tool calls are not |
//	| session/request_permission | permission.requested, with the engine's four options |
//
// The editor's files and terminals are not used: the harnesses have their own.
package acp
