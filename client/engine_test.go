package client_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"agentserver/client"
	"agentserver/engine"
	"agentserver/engine/eventlog"
	"agentserver/engine/wire"
	"agentserver/harness"
	"agentserver/harness/mock"
	"agentserver/internal/transport/transporttest"
	"agentserver/protocol"
)

// A world is a real engine with its server, and a network with faults before it, in a bubble.
type world struct {
	t   *testing.T
	net *transporttest.Network

	mu     sync.Mutex
	rt     *engine.Runtime
	server *wire.Server
}

func newWorld(t *testing.T, limits eventlog.Limits) *world {
	w := &world{t: t}
	w.start("one", limits)
	w.net = transporttest.New(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		h := w.server.Handler()
		w.mu.Unlock()
		h.ServeHTTP(rw, r)
	}))
	return w
}

func (w *world) start(instance string, limits eventlog.Limits) {
	registry, err := harness.NewRegistry(mock.New())
	if err != nil {
		w.t.Fatal(err)
	}
	rt, err := engine.New(engine.Options{Registry: registry, InstanceID: instance, Log: limits})
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rt, w.server = rt, wire.New(rt, wire.Options{})
}

func (w *world) stop() {
	w.mu.Lock()
	server := w.server
	w.mu.Unlock()
	if err := server.Shutdown(context.Background()); err != nil {
		w.t.Error(err)
	}
	w.net.Close()
}

func (w *world) dial(opts client.Options) *client.Client {
	w.t.Helper()
	opts.HTTPClient = w.net.HTTPClient()
	c, err := client.Dial(w.t.Context(), "ws://memory.test/", &opts)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// cut breaks every link that lives.
func (w *world) cut() {
	for _, l := range w.net.Links() {
		l.Cut()
	}
}

func params(session, prompt string) protocol.TurnStartParams {
	return protocol.TurnStartParams{
		SessionID: protocol.SessionID(session), Input: protocol.Text(prompt),
		Config: protocol.RunConfig{Harness: mock.ID, Cwd: os.TempDir()},
	}
}

// A stream is a handler that keeps the JSON of what it hears.
type stream struct {
	mu   sync.Mutex
	json bytes.Buffer
	envs []protocol.Envelope
}

func (s *stream) handle(env protocol.Envelope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.envs = append(s.envs, env)
	line, _ := protocol.AppendEnvelope(nil, env)
	s.json.Write(append(line, '\n'))
}

func (s *stream) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.json.String()
}

// log returns what the server holds of a session, in the form of a stream.
func (w *world) log(id protocol.SessionID) string {
	page, err := w.rt.ReplayEntries(protocol.EventsReplayParams{SessionID: id, FromSeq: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	var b bytes.Buffer
	for _, e := range page.Entries {
		b.Write(e.EnvelopeJSON())
		b.WriteByte('\n')
	}
	return b.String()
}

// TestCutThroughTheStack is RB01 with everything real but the network: a turn of 10 000 deltas, cut a hundred times at a random byte, mostly
// in the middle of a frame. Two clients end with exactly the stream that the log holds, and it keeps the contract.
func TestCutThroughTheStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 3))
		w := newWorld(t, eventlog.Limits{SessionEvents: 1 << 20, SessionBytes: 1 << 30, TotalEvents: 1 << 20, TotalBytes: 1 << 30})
		defer w.stop()
		var mu sync.Mutex
		cuts := 0
		w.net.OnDial(func(l *transporttest.Link) error {
			mu.Lock()
			defer mu.Unlock()
			if cuts++; cuts <= 100 {
				l.CutAfter(transporttest.ToClient, 600+int64(rng.IntN(60_000)))
			}
			return nil
		})
		var heard [2]stream
		var clients [2]*client.Client
		for i := range clients {
			mu.Lock()
			cuts += 1000 // not before the client is there
			mu.Unlock()
			clients[i] = w.dial(client.Options{OnEvent: heard[i].handle, OnError: func(err error) { t.Errorf("seed %d: %v", seed, err) }, ReplayPage: 100})
			defer clients[i].Close()
			mu.Lock()
			cuts -= 1001
			mu.Unlock()
		}
		for _, l := range w.net.Links() {
			l.CutAfter(transporttest.ToClient, int64(rng.IntN(60_000)))
		}
		turn, err := clients[0].StartTurn(t.Context(), params("s", "pace 200us\nburst 10000 40"))
		if err != nil {
			t.Fatal(err)
		}
		if ended, err := turn.Result(t.Context()); err != nil || ended.StopReason != protocol.StopEndTurn {
			t.Fatalf("seed %d: %+v, %v", seed, ended, err)
		}
		time.Sleep(time.Minute) // the other client catches up
		synctest.Wait()
		want := w.log("s")
		for i := range heard {
			if got := heard[i].String(); got != want {
				t.Errorf("seed %d: client %d heard %d bytes, the log holds %d", seed, i, len(got), len(want))
			}
		}
		t.Logf("%d connections", len(w.net.Links()))
		if len(w.net.Links()) < 20 {
			t.Errorf("only %d connections: the faults did not work", len(w.net.Links()))
		}
	})
}

// TestRestart: another process at the same address fails what ran, and goes on with what comes.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, eventlog.Limits{})
		c := w.dial(client.Options{})
		defer c.Close()
		turn, err := c.StartTurn(t.Context(), params("s", "hang"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		old := w.rt
		w.cut() // it is gone without a word
		w.start("two", eventlog.Limits{})
		defer w.stop()
		if _, err := turn.Result(t.Context()); !errors.Is(err, client.ErrInstanceChanged) {
			t.Errorf("got %v", err)
		}
		again, err := c.StartTurn(t.Context(), params("s", "say hello"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := again.Result(t.Context()); err != nil {
			t.Error(err)
		}
		old.Shutdown(context.Background())
	})
}

// TestEvicted: a client that was away for longer than the log reaches back learns what it lost.
func TestEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, eventlog.Limits{SessionEvents: 64})
		defer w.stop()
		heard := &stream{}
		c := w.dial(client.Options{OnEvent: heard.handle})
		defer c.Close()
		turn, err := c.StartTurn(t.Context(), params("s", "delay 1s\nburst 1000\nsay done"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		refuse := true
		var mu sync.Mutex
		w.net.OnDial(func(*transporttest.Link) error {
			mu.Lock()
			defer mu.Unlock()
			if refuse {
				return errors.New("connection refused")
			}
			return nil
		})
		w.cut()
		time.Sleep(5 * time.Second)
		mu.Lock()
		refuse = false
		mu.Unlock()
		_, err = turn.Result(t.Context())
		gap, ok := errors.AsType[*client.GapError](err)
		if !ok || gap.SessionID != "s" || gap.First < 2 || gap.Last < gap.First {
			t.Fatalf("got %v", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		heard.mu.Lock()
		defer heard.mu.Unlock()
		next := slices.IndexFunc(heard.envs, func(e protocol.Envelope) bool { return e.Seq == gap.Last+1 })
		if next < 1 || heard.envs[next-1].Seq != gap.First-1 {
			t.Errorf("the stream does not go on behind the gap %d to %d", gap.First, gap.Last)
		}
		if last := heard.envs[len(heard.envs)-1]; last.Event.EventType() != protocol.EventTurnEnded {
			t.Errorf("the stream ends with %v", last.Event.EventType())
		}
	})
}

// TestShutdownDelivers: a server that goes down in the middle of a turn still tells its end.
func TestShutdownDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, eventlog.Limits{})
		defer w.stop()
		c := w.dial(client.Options{NoReconnect: true})
		defer c.Close()
		turn, err := c.StartTurn(t.Context(), params("s", "say working\nhang"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := c.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if ended, err := turn.Result(t.Context()); err != nil || ended.StopReason != protocol.StopCancelled {
			t.Errorf("%+v, %v", ended, err)
		}
		<-c.Done()
		if !errors.Is(c.Err(), client.ErrConnectionLost) {
			t.Errorf("got %v", c.Err())
		}
	})
}

// TestVerbs: every request through the whole stack.
func TestVerbs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, eventlog.Limits{})
		defer w.stop()
		c := w.dial(client.Options{})
		defer c.Close()
		turn, err := c.StartTurn(t.Context(), params("", "await\nhang"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if ok, err := turn.Steer(t.Context(), protocol.Text("say steered")); !ok || err != nil {
			t.Errorf("steer: %v, %v", ok, err)
		}
		if sessions, err := c.Sessions(t.Context()); err != nil || len(sessions) != 1 || sessions[0].ActiveTurnID != turn.ID {
			t.Errorf("list: %+v, %v", sessions, err)
		}
		if _, err := c.CloseSession(t.Context(), turn.SessionID); !errors.Is(err, protocol.ErrTurnActive) {
			t.Errorf("close: %v", err)
		}
		if r, err := turn.Cancel(t.Context()); err != nil || r.Outcome != protocol.CancelConfirmed {
			t.Errorf("cancel: %+v, %v", r, err)
		}
		if ended, err := turn.Result(t.Context()); err != nil || ended.StopReason != protocol.StopCancelled {
			t.Errorf("%+v, %v", ended, err)
		}
		if r, err := c.Replay(t.Context(), protocol.EventsReplayParams{SessionID: turn.SessionID, FromSeq: 2, Limit: 3}); err != nil || len(r.Events) != 3 || r.Events[0].Seq != 2 {
			t.Errorf("replay: %+v, %v", r, err)
		}
		if ok, err := turn.Respond(t.Context(), "nothing", protocol.Cancelled()); ok || err != nil {
			t.Errorf("respond: %v, %v", ok, err)
		}
		if ok, err := c.CloseSession(t.Context(), turn.SessionID); !ok || err != nil {
			t.Errorf("close: %v, %v", ok, err)
		}
		if _, err := c.Replay(t.Context(), protocol.EventsReplayParams{SessionID: turn.SessionID, FromSeq: 1}); !errors.Is(err, protocol.ErrUnknownSession) {
			t.Errorf("replay: %v", err)
		}
		if err := c.Call(t.Context(), "deus/magic", nil, nil); !errors.Is(err, protocol.ErrMethodNotFound) {
			t.Errorf("call: %v", err)
		}
	})
}

// TestSpawnDies: a child that is killed takes its turn with it, and another takes its place.
func TestSpawnDies(t *testing.T) {
	pids := make(chan int, 10)
	c, err := client.Spawn(t.Context(), "/bin/sh", []string{"-c", `echo $$ >&2; exec "$0"`, os.Args[0]}, &client.Options{
		Env: append(os.Environ(), serveEnv+"=1"), Stderr: pidWriter(pids),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	first := c.Server().InstanceID
	turn, err := c.StartTurn(t.Context(), params("s", "hang"))
	if err != nil {
		t.Fatal(err)
	}
	syscall.Kill(<-pids, syscall.SIGKILL)
	if _, err := turn.Result(t.Context()); !errors.Is(err, client.ErrInstanceChanged) {
		t.Errorf("got %v", err)
	}
	again, err := c.StartTurn(t.Context(), params("s", "say hello"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Result(t.Context()); err != nil || c.Server().InstanceID == first {
		t.Errorf("%v, instance %s", err, c.Server().InstanceID)
	}
	c.Close()
	if err := syscall.Kill(<-pids, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the child is still there: %v", err)
	}
}

// TestSpawnStubborn: a child that ignores the end of its input and SIGTERM is killed, with what it started.
func TestSpawnStubborn(t *testing.T) {
	pids := make(chan int, 10)
	script := `trap "" TERM; (trap "" TERM; exec sleep 600 <&- >&- 2>&-) & echo $! >&2; "$0" <&0; sleep 600`
	c, err := client.Spawn(t.Context(), "/bin/sh", []string{"-c", script, os.Args[0]}, &client.Options{
		Env: append(os.Environ(), serveEnv+"=1"), Stderr: pidWriter(pids), KillGrace: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	pid := <-pids
	for deadline := time.Now().Add(5 * time.Second); alive(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the grandchild is still there")
		}
	}
}

// alive reports whether a process runs. One that is dead and not yet reaped, by whoever is process 1 here, does not.
func alive(pid int) bool {
	if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil {
		return !bytes.Contains(stat, []byte(") Z "))
	}
	return syscall.Kill(pid, 0) == nil
}

// A pidWriter is a stderr on which children say their process ids.
type pidWriter chan int

func (w pidWriter) Write(p []byte) (int, error) {
	for _, line := range bytes.Fields(p) {
		if pid, err := strconv.Atoi(string(line)); err == nil {
			w <- pid
		}
	}
	return len(p), nil
}

// TestSpawnFails: a command that does not exist, and one that is no server, say so.
func TestSpawnFails(t *testing.T) {
	if _, err := client.Spawn(t.Context(), "/does/not/exist", nil, nil); err == nil {
		t.Error("no error")
	}
	for i := range 20 { // the end is noticed by the reader or by the writer, whichever comes first
		script := []string{"echo not a server; exit 3", "exec <&-; exit 3"}[i%2]
		_, err := client.Spawn(t.Context(), "/bin/sh", []string{"-c", script}, nil)
		if err == nil || !bytes.Contains([]byte(err.Error()), []byte("exit status 3")) {
			t.Fatalf("got %v", err)
		}
	}
}
