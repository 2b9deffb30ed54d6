// Package process runs one agent as a supervised subprocess. Every driver that speaks to a CLI over its standard streams stands on it.
//
// It answers for four things, whatever the child does:
//
//   - No output is lost, reordered or held back: [Process.ReadLine] is pull-style, has no line length that breaks it, and keeps what the child
//     had written when it died.
//   - The exit is known when it happens ([Process.Done]), apart from the end of the output, which a grandchild may hold open for ever.
//   - Nothing blocks for ever: writes to a child that does not read, reads after the exit, and closing are all bounded.
//   - Nothing remains: [Process.Close] returns when the whole tree is gone, children in sessions of their own included, and a small reaper
//     process does the same if this process is killed with SIGKILL.
//
// # How a tree is recognised
//
// The child leads a session, and with it a process group, of its own and carries the environment variable AGENT_SERVER_PROCESS with a value that no other process
// has. A process belongs to the tree if it descends from a member, is in the session or group of one, or carries the value.
// Processes are named by pid and start time, so that a recycled pid is never signalled. RFD 0005 has the reasons and the limits.
//
// # The reaper
//
// The first [Start] starts one reaper for the whole program: this very executable again, recognised in an init function of this package
// by the variable AGENT_SERVER_REAPER and its argv[0], before main runs. It holds the read end of a pipe, and when that reaches its end, which
// means that this process is gone, it kills every process that carries this program's marker and exits. A program that embeds this package can
// turn it off with AGENT_SERVER_NO_REAPER=1 in its environment or [Spec.NoReaper].
//
// The package supports Linux and, with a weaker sweep, macOS.
package process
