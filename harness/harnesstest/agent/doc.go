// Package agent lets a test binary play an agent's process from a script, so that drivers that start one can be tested without the real program: with
// what real ones do rarely, and what broken ones do.
//
//	func TestMain(m *testing.M) {
//		agent.Main() // plays the agent and exits, in a process that was started as one
//		os.Exit(m.Run())
//	}
//
//	a := agent.New(t, agent.Script{
//		{On: agent.Started(), Do: agent.Actions{agent.Line(`{"hello":1}`)}},
//		{On: agent.Input(`"method":"prompt"`), Do: agent.Actions{agent.Line(`{"id":${id},"result":{}}`)}},
//		{On: agent.EndOfInput(), Do: agent.Actions{agent.Exit(0)}},
//	})
//	driver := mydriver.New(mydriver.Options{Resolve: a.Resolve})
//
// A script is a list of rules. A line on stdin plays the first rule that matches it and is not used up; rules play at the same time as others, so that a
// rule that streams for ever can be stopped by another ([Stop]). In lines, ${a.b} stands for the JSON at that path in the line that set the rule off, and
// ${a.b?} for the text of a JSON string there, and ${#pid} for the process id.
//
// Without a rule for it, the end of the input ends the process with status 0, and signals do what they do by default.
package agent
