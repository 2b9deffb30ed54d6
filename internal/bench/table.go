package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/coder/websocket"
)

// A bench runs the measurements and prints one row for each.
type bench struct {
	server string
	rounds int
	scale  int // the load is divided by it
	w      *tabwriter.Writer
}

func (b *bench) run(ctx context.Context) error {
	if _, err := os.Stat(b.server); err != nil {
		return fmt.Errorf("%w; `make build` makes it", err)
	}
	b.w = tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(b.w, "\twhat\tfloor\tours\tratio\tmust")
	for _, step := range []func(context.Context) error{b.latency, b.burst, b.fanOut, b.idle, b.coldStart, b.size} {
		if err := step(ctx); err != nil {
			return err
		}
		if err := b.w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) row(id, what, floor, ours string, ratio float64, must string) {
	fmt.Fprintf(b.w, "%s\t%s\t%s\t%s\t%.2f\t%s\n", id, what, floor, ours, ratio, must)
}

// rounds plays a load against floor, ours, floor, so many times; a round whose floor drifts by more than 30 % is thrown away.
func (b *bench) interleave(ctx context.Context, l load) (floor, ours result, err error) {
	var floors, all []result
	for tries := 0; len(all) < b.rounds && tries < 3*b.rounds; tries++ {
		before, err := b.once(ctx, l, false)
		if err != nil {
			return floor, ours, fmt.Errorf("relay: %w", err)
		}
		own, err := b.once(ctx, l, true)
		if err != nil {
			return floor, ours, fmt.Errorf("agent-server: %w", err)
		}
		after, err := b.once(ctx, l, false)
		if err != nil {
			return floor, ours, fmt.Errorf("relay: %w", err)
		}
		if drift := before.perSecond / after.perSecond; drift > 1.3 || drift < 1/1.3 {
			continue
		}
		floors, all = append(floors, before, after), append(all, own)
	}
	if len(all) == 0 {
		return floor, ours, fmt.Errorf("the floor drifts too much: the machine is too busy to measure on")
	}
	return median(floors), median(all), nil
}

func (b *bench) once(ctx context.Context, l load, ours bool) (result, error) {
	c, err := b.start(ctx, l.plan, ours)
	if err != nil {
		return result{}, err
	}
	defer c.stop()
	return l.measure(ctx, c, ours)
}

func (b *bench) start(ctx context.Context, p plan, ours bool) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if !ours {
		return start(ctx, nil, self, "relay", "ADDR")
	}
	// The plan reaches the agent through the server's environment, the agent itself through the operator's override.
	return start(ctx, []string{p.env(), "CLAUDE_CLI_PATH=" + self}, b.server,
		"--listen", "127.0.0.1:0", "--address-file", "ADDR", "--log-level", "warn", "--buffer", "200000")
}

func median(rs []result) result {
	pick := func(get func(result) float64) float64 {
		var v []float64
		for _, r := range rs {
			v = append(v, get(r))
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return result{
		perSecond: pick(func(r result) float64 { return r.perSecond }),
		cpu:       time.Duration(pick(func(r result) float64 { return float64(r.cpu) })),
		p50:       time.Duration(pick(func(r result) float64 { return float64(r.p50) })),
		p99:       time.Duration(pick(func(r result) float64 { return float64(r.p99) })),
		bytes:     int64(pick(func(r result) float64 { return float64(r.bytes) })),
	}
}

// latency is P1.
func (b *bench) latency(ctx context.Context) error {
	for _, rate := range []int{200, 1000} {
		floor, ours, err := b.interleave(ctx, load{1, plan{max(200, 5*rate/b.scale), rate, 40}})
		if err != nil {
			return err
		}
		name := fmt.Sprintf("latency, 1 client, %d ev/s", rate)
		b.row("P1", name+", p50", round(floor.p50), round(ours.p50), ratio(ours.p50, floor.p50), "<= 1.6")
		b.row("P1", name+", p99", round(floor.p99), round(ours.p99), ratio(ours.p99, floor.p99), "<= 3 or 2ms")
	}
	floor, ours, err := b.interleave(ctx, load{50, plan{max(100, 500/b.scale), 100, 40}})
	if err != nil {
		return err
	}
	b.row("P3", "latency, 50 clients, 100 ev/s, p50", round(floor.p50), round(ours.p50), ratio(ours.p50, floor.p50), "<= 1.4")
	return nil
}

// burst is P5 and P16.
func (b *bench) burst(ctx context.Context) error {
	floor, ours, err := b.interleave(ctx, load{1, plan{50000 / b.scale, 0, 40}})
	if err != nil {
		return err
	}
	b.row("P5", "burst, 1 client, deliveries/s", count(floor.perSecond), count(ours.perSecond), ours.perSecond/floor.perSecond, ">= 0.3")
	b.row("P16", "wire bytes per agent byte", "1", fmt.Sprintf("%.2f", float64(ours.bytes)/float64(floor.bytes)), float64(ours.bytes)/float64(floor.bytes), "<= 2.5")
	return nil
}

// fanOut is P4 and P7.
func (b *bench) fanOut(ctx context.Context) error {
	floor, ours, err := b.interleave(ctx, load{50, plan{10000 / b.scale, 0, 40}})
	if err != nil {
		return err
	}
	b.row("P4", "burst, 50 clients, deliveries/s", count(floor.perSecond), count(ours.perSecond), ours.perSecond/floor.perSecond, ">= 0.5")
	b.row("P7", "CPU per delivery in it", floor.cpu.String(), ours.cpu.String(), ratio(ours.cpu, floor.cpu), "<= 2.5")
	return nil
}

// idle is P10.
func (b *bench) idle(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var sizes [2][]int64
	for range b.rounds {
		for i, c := range []struct {
			path string
			args []string
		}{{self, []string{"trivial", "ADDR"}}, {b.server, []string{"--listen", "127.0.0.1:0", "--address-file", "ADDR", "--log-level", "warn"}}} {
			ch, err := start(ctx, nil, c.path, c.args...)
			if err != nil {
				return err
			}
			time.Sleep(300 * time.Millisecond)
			sizes[i] = append(sizes[i], ch.memory())
			ch.stop()
		}
	}
	slices.Sort(sizes[0])
	slices.Sort(sizes[1])
	floor, ours := sizes[0][b.rounds/2], sizes[1][b.rounds/2]
	b.row("P10", "idle memory", mib(floor), mib(ours), float64(ours)/float64(floor), "<= 2")
	return nil
}

// coldStart is P11.
func (b *bench) coldStart(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var times [2][]time.Duration
	for range 3 * b.rounds {
		began := time.Now()
		floor, err := start(ctx, nil, self, "trivial", "ADDR")
		if err != nil {
			return err
		}
		resp, err := http.Get("http://" + floor.addr)
		if err != nil {
			floor.stop()
			return err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		times[0] = append(times[0], time.Since(began))
		floor.stop()

		began = time.Now()
		ours, err := start(ctx, nil, b.server, "--listen", "127.0.0.1:0", "--address-file", "ADDR", "--log-level", "warn")
		if err != nil {
			return err
		}
		err = hello(ctx, ours.addr)
		times[1] = append(times[1], time.Since(began))
		ours.stop()
		if err != nil {
			return err
		}
	}
	slices.Sort(times[0])
	slices.Sort(times[1])
	floor, ours := times[0][len(times[0])/2], times[1][len(times[1])/2]
	b.row("P11", "cold start to the first answer", round(floor), round(ours), ratio(ours, floor), "<= 4")
	return nil
}

func hello(ctx context.Context, addr string) error {
	conn, _, err := websocket.Dial(ctx, "ws://"+addr+"/", nil)
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	if err := conn.Write(ctx, websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":2}}`)); err != nil {
		return err
	}
	_, _, err = conn.Read(ctx)
	return err
}

// size is P20.
func (b *bench) size(context.Context) error {
	info, err := os.Stat(b.server)
	if err != nil {
		return err
	}
	const limit = 16 << 20
	b.row("P20", "binary", mib(limit), mib(info.Size()), float64(info.Size())/limit, "<= 1")
	return nil
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func round(d time.Duration) string { return d.Round(time.Microsecond).String() }

func count(n float64) string { return fmt.Sprintf("%.0f", n) }

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
