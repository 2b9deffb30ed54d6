// Command embed is a program of one's own around the engine: its own harness, the WebSocket beside its own pages, and every conversation in SQLite.
//
//	go run . conversations.db
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"agentserver/client"
	"agentserver/engine"
	"agentserver/engine/eventlog"
	"agentserver/engine/wire"
	"agentserver/harness"
	"agentserver/harness/mock"
	"agentserver/protocol"
	"example.com/embed/parrot"
	"example.com/embed/store"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: embed FILE.db")
	}
	if err := run(context.Background(), os.Args[1], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path string, out io.Writer) error {
	db, err := store.Open(path)
	if err != nil {
		return err
	}
	defer db.Close()
	session, err := serve(ctx, db, out)
	if err != nil {
		return err
	}
	lines, err := db.Lines(ctx, session)
	for _, l := range lines {
		fmt.Fprintf(out, "stored: %s %s %q\n", l.Role, l.Type, l.Text)
	}
	return err
}

// serve runs everything for as long as a visitor stays, and returns the session that the visitor used.
func serve(ctx context.Context, db *store.Store, out io.Writer) (protocol.SessionID, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	registry, err := harness.NewRegistry(parrot.Harness{}, mock.New())
	if err != nil {
		return "", err
	}
	rt, err := engine.New(engine.Options{Registry: registry})
	if err != nil {
		return "", err
	}

	// Every event of every session goes into the database, until the runtime ends.
	stored := make(chan error, 1)
	events := rt.Follow()
	go func() { stored <- keep(ctx, db, events) }()

	// The WebSocket is one page among others.
	srv := wire.New(rt, wire.Options{Token: "secret"})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	mux.Handle("/agents", srv.Handler())

	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()

	session, err := visit(ctx, l.Addr().String(), out)

	// First the agents, so that the ends of their turns are still delivered and stored; then the pages.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	err = errors.Join(err, srv.Shutdown(ending), web.Shutdown(ending), <-stored)
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return session, err
}

// keep stores what a follower gets.
func keep(ctx context.Context, db *store.Store, events *eventlog.Follower) error {
	for env, err := range events.All(ctx) {
		if err != nil {
			return err
		}
		if err := db.Apply(ctx, env); err != nil {
			return err
		}
	}
	return nil
}

// visit is a client somewhere else.
func visit(ctx context.Context, addr string, out io.Writer) (protocol.SessionID, error) {
	page, err := http.Get("http://" + addr + "/")
	if err != nil {
		return "", err
	}
	defer page.Body.Close()
	if _, err := io.Copy(out, page.Body); err != nil {
		return "", err
	}
	c, err := client.Dial(ctx, "ws://"+addr+"/agents", &client.Options{Token: "secret"})
	if err != nil {
		return "", err
	}
	defer c.Close()
	var session protocol.SessionID
	for _, prompt := range []string{"pieces of eight", "run ls"} {
		turn, err := c.StartTurn(ctx, protocol.TurnStartParams{
			SessionID: session,
			Input:     protocol.Text(prompt),
			Config:    protocol.RunConfig{Harness: "parrot", Cwd: os.TempDir()},
		})
		if err != nil {
			return session, err
		}
		session = turn.SessionID
		for event, err := range turn.Events(ctx) {
			if err != nil {
				return session, err
			}
			if ask, ok := event.(*protocol.PermissionRequested); ok {
				if _, err := turn.Respond(ctx, ask.RequestID, protocol.Selected(protocol.OptionIDAllow)); err != nil {
					return session, err
				}
			}
		}
		ended, err := turn.Result(ctx)
		if err != nil {
			return session, err
		}
		fmt.Fprintf(out, "%s: %s\n", prompt, ended.StopReason)
	}
	return session, nil
}
