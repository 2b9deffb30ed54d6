// Package fakemodel serves scripted model APIs on loopback, so that the real agent CLIs run with no key and no network.
//
//	srv, err := fakemodel.Start(nil)
//	defer srv.Close()
//	cmd.Env = append(cmd.Env, fakemodel.ClaudeEnv(srv.URL())...)
//	// send the agent the prompt "SAY hello", then look at srv.Calls() and srv.TotalUsage("", "")
//
// One listener speaks the Anthropic Messages API (/v1/messages), the OpenAI Responses API (/v1/responses), OpenAI chat
// completions (/v1/chat/completions) and Gemini generateContent (/v1beta/models/…), told apart by path.
//
// # Scripts
//
// The latest user text that holds a directive decides the reply. A directive is an upper-case verb at the start of a
// line; other lines are ignored. Several lines play in order. A line that calls a tool ends the message, and the request
// that brings the tool's result goes on with the next line. If no line is left, the reply quotes the result. A conversation
// without a directive is echoed ("echo: …"). In the arguments of SAY, THINK, HANG, REFUSE, PATCH and TASK the two characters \n stand for
// a line break.
//
// Text:
//
//	SAY text              stream text ("hello" if there is none) and end the turn
//	THINK [text]          a thinking block of two parts, then text
//	THINKRAW [text]       the same with a raw chain of thought (Responses)
//	EMPTY                 nothing
//	SLOW [n [ms]]         n words (50), one delta each ms (100)
//	BIGTEXT n             n bytes in large deltas
//	BIGDELTA n            n bytes in one delta
//	IMG                   how many images the conversation holds
//	TOOLS                 the names of the offered tools
//	ECHOMODEL             the model and the reasoning settings of the request
//	JSONOUT [json]        json as text, {"answer":42} if there is none
//	GATE name             "before name", then wait until [Server.Release](name), then " after name", in one block
//	USAGE in create read out [reasoning]   the token counts of this reply and those after it; "-" keeps one
//
// Tools:
//
//	TOOL bash command     run command with the shell tool that the request offers
//	TOOL Name {json}      call Name; "namespace::Name" for a namespaced tool of the Responses API
//	SHELL command         the same as TOOL bash command
//	SHELLESC [[prefix] ]command   ask to run outside the sandbox, with a rule for prefix (codex)
//	SHELLPOLL command     start command, then poll it (codex)
//	SHELLSTDIN command    start command, then type a line into it (codex)
//	SLOWTOOL              a shell call whose input takes about 9 seconds to stream
//	MULTI a ;; b          several shell calls in one message; or [{"name":…,"input":{…}},…]
//	LOOP bash command     call the tool again after every result, for ever
//	TASK prompt [BG]      start a subagent with prompt, itself a script; BG in the background
//	PATCH [path [text]]   create a file
//	PATCHUPD path old new replace old by new in a file
//	PATCHRAW patch        apply a patch in the apply_patch format, which follows on the next lines
//	PLAN                  set a plan (to-do list) of three steps; codex needs -c tools.update_plan.enabled=true
//	CUSTOM name input     call a free-form tool (Responses)
//	WEBSEARCH [query]     a finished search of the provider (Responses), then text
//
// Endings:
//
//	ERR code [message]    an error before any stream: an HTTP status, or usage, quota, credit, context, overloaded,
//	                      policy, modelnotfound, badreq, drop
//	ERRN code n           the same n times, then an answer
//	EVERR                 some text, then an error event in the stream
//	DROP                  some text, then the connection is cut
//	HANG [text]           text, in a block that stays open, then nothing; without text not even a block
//	MAXTOK                cut by the output limit
//	CTXLIM                cut by the context window
//	REFUSE [text]         a refusal
//	PAUSE                 pause_turn; "resumed" when the request ends with a message of the assistant
//
// What a CLI asks beside the turns of its user is answered too: conversation titles and compaction summaries.
//
// # Tokens
//
// Every reply reports [DefaultUsage] or what the script says. See [Server.Usage] and [Server.TotalUsage].
package fakemodel
