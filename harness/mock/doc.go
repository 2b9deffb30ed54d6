// Package mock is a harness whose agent plays the script in the prompt. It is for people who develop clients, and for tests: no model, no network, no
// process, no key; the same prompt gives the same events, and time passes only where the script says so.
//
//	registry, err := harness.NewRegistry(mock.New())
//
// # Scripts
//
// A prompt whose first word is a verb of the table is a script: one verb a line, blank lines and lines that start with "#" do nothing. Any other
// prompt is answered with "You said: …", streamed word by word. A line that cannot be read fails the turn with invalid_request and the line's number.
//
// Lines that are indented below subagent or background are the script of that block. In a TEXT, \n stands for a line break. A DURATION is written as
// Go does: 200ms, 1.5s.
//
//	| verb | what the agent does |
//	|---|---|
//	| say TEXT | streams a text |
//	| think TEXT | streams a thought; not with thinkingLevel "off" |
//	| tool NAME {json} [-> OUTPUT or ! ERROR] | calls a tool: the input is streamed, the call runs and ends with the output ("ok") or fails |
//	| ask NAME {json} [-> OUTPUT or ! ERROR] | the same, but asks for permission first, as the permission mode wants it |
//	| linger DURATION NAME {json} [-> OUTPUT or ! ERROR] | starts a tool that goes on after the turn, and ends so long after its end |
//	| subagent TYPE DESCRIPTION | calls the tool Task; the indented lines are what the sub-agent does |
//	| image [MIME BASE64] | shows an image (one pixel) |
//	| file NAME TEXT | shows a file |
//	| burst N [BYTES] | streams N deltas of BYTES bytes each (8), in one text |
//	| pace DURATION | waits so long before each delta from here on |
//	| delay DURATION | waits |
//	| await | waits until somebody steers |
//	| hang | waits until it is interrupted |
//	| usage USED [SIZE] | reports the context gauge |
//	| tokens INPUT OUTPUT [READ WRITE] | what the turn's end reports, instead of counted words |
//	| compact [SUMMARY] | compacts its context |
//	| notice KIND TEXT | yields a notice |
//	| error CATEGORY TEXT | reports an error after which the turn goes on |
//	| raw {json} | yields a raw message, if the turn asked for them |
//	| config | says what the turn was configured with; of secrets, only that they are there |
//	| recall | says which prompts it remembers |
//	| fail CATEGORY TEXT | ends the turn with an error |
//	| stop REASON | ends the turn with that stop reason |
//	| crash [TEXT] | the agent is gone, as if its process had died |
//	| ignore-interrupt | from here on, an interrupt is neither confirmed nor obeyed |
//	| background DURATION | so long after the turn's end, the agent begins a turn of its own with the indented lines |
//
// # What else it does
//
// A conversation is remembered by the harness for as long as that lives, also when its agent crashed: a session that resumes it goes on from it. An id
// that is not known begins a new conversation and says so (resumed: false). Steering input is a script too: it is played when the current line is
// through.
//
// A turn's tokens are the words of the prompt and of what was said; its cost is 3 dollars a million for the first and 15 for the second.
//
// An answer to ask that says "cancelled" ends the turn as cancelled; a refusal fails the call, and the script goes on.
//
// With disableTools, lines that call a tool do nothing but yield a warning.
package mock
