package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"agentserver/protocol"
	"agentserver/protocol/streamcheck"
)

const checkLong = `Check a recorded stream against the contract of the protocol.

FILE holds envelopes, one a line, as "run --json" prints them; - reads stdin. Several
sessions may be interleaved: each is checked by itself. Each violation is printed with
its session and the number of the event that made it known.

  agent-server run --harness mock --json "hello" | agent-server check -

Exit status: 0 the stream keeps the contract, 1 it does not or cannot be read, 2 wrong usage.`

// maxRecordedLine bounds a line, as the wire does.
const maxRecordedLine = 64 << 20

func newCheckCmd() *cobra.Command {
	var cut bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a recorded stream against the contract",
		Long:  checkLong,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError("check: name one file of recorded envelopes, or - for stdin")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			in := cmd.InOrStdin()
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return &exitError{exitUsage, err}
				}
				defer f.Close()
				in = f
			}
			r := &recording{out: cmd.OutOrStdout(), cut: cut, sessions: map[protocol.SessionID]*streamcheck.Checker{}}
			return r.check(in)
		},
	}
	cmd.Flags().BoolVar(&cut, "cut", false, "the recording was cut off: a turn may lack its end")
	return cmd
}

// A recording is checked line by line.
type recording struct {
	out      io.Writer
	cut      bool
	sessions map[protocol.SessionID]*streamcheck.Checker
	order    []protocol.SessionID
	events   int
	broken   int
}

func (r *recording) check(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxRecordedLine)
	for n := 1; lines.Scan(); n++ {
		// The event keeps referring to its line, and the scanner uses its buffer again.
		if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 {
			r.line(n, bytes.Clone(line))
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading the recording: %w", err)
	}
	if r.events == 0 && r.broken == 0 {
		return errors.New("the recording holds no envelope; record one with: agent-server run --json")
	}
	if !r.cut {
		for _, id := range r.order {
			r.report(id, r.sessions[id].Finish())
		}
	}
	fmt.Fprintf(r.out, "%d events of %d sessions, %d violations\n", r.events, len(r.order), r.broken)
	if r.broken > 0 {
		return &exitError{exitFailed, errors.New("the stream breaks the contract")}
	}
	return nil
}

func (r *recording) line(n int, line []byte) {
	env, err := protocol.DecodeEnvelope(line)
	if err == nil {
		r.events++
		r.report(env.SessionID, r.session(env.SessionID).Add(env))
		return
	}
	// What cannot be decoded still stands for an event of its session, if it says of which.
	var head struct {
		SessionID protocol.SessionID `json:"sessionId"`
	}
	if json.Unmarshal(line, &head) != nil || head.SessionID == "" {
		r.broken++
		fmt.Fprintf(r.out, "line %d: no envelope: %v\n", n, err)
		return
	}
	r.events++
	r.report(head.SessionID, []streamcheck.Violation{r.session(head.SessionID).Undecodable(err)})
}

func (r *recording) session(id protocol.SessionID) *streamcheck.Checker {
	c := r.sessions[id]
	if c == nil {
		c = streamcheck.New()
		r.sessions[id] = c
		r.order = append(r.order, id)
	}
	return c
}

func (r *recording) report(id protocol.SessionID, all []streamcheck.Violation) {
	r.broken += len(all)
	for _, v := range all {
		fmt.Fprintf(r.out, "%s %v\n", id, v)
	}
}
