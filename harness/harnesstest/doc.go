// Package harnesstest holds a conformance suite that every driver is run through, ours or an embedder's: first as it is (Open, Send, Recv, Interrupt,
// Close), then through the engine, where every stream must also pass package streamcheck.
//
//	func TestConformance(t *testing.T) {
//		harnesstest.Run(t, harnesstest.Suite{
//			Harness: myharness.New(),
//			Prompts: harnesstest.Prompts{
//				Text:       "Say hello.",
//				LongText:   "Count to a million.",
//				Permission: "Run ls.",
//			},
//		})
//	}
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
//
// Each prompt makes the agent do one thing that tests need; with a prompt missing, the tests that need it are skipped and say so. The suite takes no part
// of an answer for granted, so that it runs against a scripted agent, a fake model and a real one alike. It finds out by itself how many events a prompt
// gives, and interrupts, closes and kills at each of them.
//
// Do not run it beside other tests (t.Parallel): it looks for goroutines that were left behind.
//
// For drivers that start a process, package harnesstest/agent plays one from a script: the test binary starts itself again as the agent.
//
// # What is checked
//
//	| | |
//	|---|---|
//	| One end | a turn ends once, by a TurnEnd or by the Exit; nothing follows the Exit but io.EOF |
//	| Events | are complete: keys, parts, reasons; an error with the stop reason "error" and only then |
//	| Several turns | run in one session, one after the other |
//	| Permissions | allowed, refused, not answered at all |
//	| Interrupt | at each event and before the first: the turn ends, and the next one is not affected; with nothing running it is nil |
//	| Death | killed at each event: an Exit that says why; Send fails then; a session that resumes goes on |
//	| Close | at each event, twice, from several goroutines, under a blocked Recv, with an ended context; a context that ends during Open |
//	| Recv | returns the context's error when that ends, and loses nothing |
//	| Resume | a known id goes on, an unknown one is honestly reported |
//	| Background | turns of the agent's own, also in the way of the client's |
//	| Steering | where advertised: taken while a turn runs, declined when none does |
//	| Through the engine | cancels, deaths, closes and a shutdown at each event; the stream keeps the contract |
//	| Nothing left | no goroutine, and no process where the suite can see them |
package harnesstest
