// Package e2e holds the tests of the whole path, over real processes: a client, a real connection, the built agent-server and the real claude CLI, whose model is
// scripted. Every stream that any of them sees is held to the stream's contract and to the published JSON schema, and no test may leave a process
// behind.
//
// With -short only the tests without the real CLI run.
package e2e
