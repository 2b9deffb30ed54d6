package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Main plays the agent in a process that was started as one, and does not return then. In any other it does nothing.
func Main() {
	if len(os.Args) < 3 || os.Args[1] != mark {
		return
	}
	p := &player{dir: os.Args[2], used: make(map[int]int), playing: make(map[int]*playing)}
	if len(os.Args) > 3 && os.Args[3] == grandchildMark {
		p.beGrandchild(os.Args[4:])
	}
	p.main()
}

const grandchildMark = "harnesstest-grandchild"

// A player is the agent's process.
type player struct {
	dir    string
	script Script

	out     sync.Mutex // held while a line is written
	mu      sync.Mutex // guards the rest
	used    map[int]int
	playing map[int]*playing
	plays   int
	deaf    bool
}

// playing is a rule that plays.
type playing struct {
	stop context.CancelFunc
	done chan struct{}
}

func (p *player) main() {
	p.note("pids", strconv.Itoa(os.Getpid()))
	args, err := json.Marshal(os.Args[3:])
	p.must(err)
	p.note("arguments", string(args))
	data, err := os.ReadFile(filepath.Join(p.dir, "script"))
	p.must(err)
	p.must(json.Unmarshal(data, &p.script))
	p.catchSignals()
	p.happened(nil, func(t Trigger) bool { return t.Start })
	in := bufio.NewReaderSize(os.Stdin, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		p.mu.Lock()
		deaf := p.deaf
		p.mu.Unlock()
		if deaf {
			select {}
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) > 0 {
			p.note("received", string(line))
			p.happened(line, func(t Trigger) bool { return t.matches(string(line)) })
		}
		if err != nil {
			if !p.happened(nil, func(t Trigger) bool { return t.EOF }) {
				exit(0)
			}
			select {} // the rule ends the process, or somebody else does
		}
	}
}

func (t Trigger) matches(line string) bool {
	for _, part := range t.Line {
		if !strings.Contains(line, part) {
			return false
		}
	}
	return len(t.Line) > 0
}

// happened plays the first rule that fits and is not used up.
func (p *player) happened(line []byte, fits func(Trigger) bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, rule := range p.script {
		if !fits(rule.On) || rule.Times > 0 && p.used[i] >= rule.Times {
			continue
		}
		p.used[i]++
		ctx, stop := context.WithCancel(context.Background())
		p.plays++
		number, play := p.plays, &playing{stop, make(chan struct{})}
		p.playing[number] = play
		go func() {
			defer close(play.done)
			p.do(ctx, number, line, rule.Do)
			p.mu.Lock()
			delete(p.playing, number)
			p.mu.Unlock()
		}()
		return true
	}
	return false
}

func (p *player) catchSignals() {
	for name, sig := range map[string]os.Signal{"interrupt": os.Interrupt, "terminated": syscall.SIGTERM} {
		for _, rule := range p.script {
			if rule.On.Signal != name {
				continue
			}
			c := make(chan os.Signal, 8)
			signal.Notify(c, sig)
			go func() {
				for range c {
					p.happened(nil, func(t Trigger) bool { return t.Signal == name })
				}
			}()
			break
		}
	}
}

func (p *player) do(ctx context.Context, number int, line []byte, actions Actions) {
	for _, a := range actions {
		if ctx.Err() != nil {
			return
		}
		p.act(ctx, number, line, a)
	}
}

func (p *player) act(ctx context.Context, number int, line []byte, a Action) {
	switch {
	case a.Line != nil:
		p.write([]byte(fill(*a.Line, line) + "\n"))
	case a.Bytes != nil:
		p.write(a.Bytes)
	case a.Long != nil:
		p.write([]byte(fill(a.Long.Before, line) + strings.Repeat("x", a.Long.N) + a.Long.After + "\n"))
	case a.Stderr != nil:
		fmt.Fprintln(os.Stderr, *a.Stderr)
	case a.Sleep > 0:
		sleep(ctx, a.Sleep)
	case a.Repeat != nil:
		for n := 0; (a.Repeat.N == 0 || n < a.Repeat.N) && ctx.Err() == nil; n++ {
			p.do(ctx, number, line, a.Repeat.Do)
			sleep(ctx, a.Repeat.Every)
		}
	case a.Stop:
		p.stopOthers(number)
	case a.Exit != nil:
		exit(*a.Exit)
	case a.Kill:
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case a.Close:
		os.Stdout.Close()
	case a.Ignore:
		signal.Ignore(os.Interrupt, syscall.SIGTERM)
	case a.Deaf:
		p.mu.Lock()
		p.deaf = true
		p.mu.Unlock()
	case a.Grandkid != nil:
		p.startGrandchild(*a.Grandkid)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// stopOthers stops what else plays, but for other rules that are doing the same.
func (p *player) stopOthers(number int) {
	p.mu.Lock()
	var others []*playing
	for n, play := range p.playing {
		if n < number {
			others = append(others, play)
		}
	}
	p.mu.Unlock()
	for _, play := range others {
		play.stop()
	}
	for _, play := range others {
		<-play.done
	}
}

func (p *player) write(data []byte) {
	p.out.Lock()
	defer p.out.Unlock()
	if _, err := os.Stdout.Write(data); err != nil {
		exit(141) // as a program that a broken pipe ends
	}
}

var placeholder = regexp.MustCompile(`\$\{[^}]+\}`)

// fill puts pieces of the received line into a line to be written.
func fill(text string, line []byte) string {
	return placeholder.ReplaceAllStringFunc(text, func(m string) string {
		path, asText := strings.CutSuffix(m[2:len(m)-1], "?")
		if path == "#pid" {
			return strconv.Itoa(os.Getpid())
		}
		value := lookUp(line, strings.Split(path, "."))
		if value == nil {
			value = json.RawMessage("null")
		}
		if asText {
			var s string
			json.Unmarshal(value, &s)
			return s
		}
		return string(value)
	})
}

func lookUp(data json.RawMessage, path []string) json.RawMessage {
	for _, name := range path {
		var object map[string]json.RawMessage
		if i, err := strconv.Atoi(name); err == nil {
			var list []json.RawMessage
			if json.Unmarshal(data, &list) != nil || i < 0 || i >= len(list) {
				return nil
			}
			data = list[i]
			continue
		}
		if json.Unmarshal(data, &object) != nil {
			return nil
		}
		data = object[name]
	}
	return data
}

func (p *player) startGrandchild(g grandchild) {
	cmd := exec.Command(os.Args[0], mark, p.dir, grandchildMark, g.For.String(), strconv.FormatBool(g.Ignore))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if g.Own {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	ready, err := cmd.StdinPipe() // stays open as long as this process lives
	p.must(err)
	_ = ready
	p.must(cmd.Start())
	p.note("pids", strconv.Itoa(cmd.Process.Pid))
}

// beGrandchild holds what it inherited for a time.
func (p *player) beGrandchild(args []string) {
	d, err := time.ParseDuration(args[0])
	p.must(err)
	if args[1] == "true" {
		signal.Ignore(os.Interrupt, syscall.SIGTERM)
	}
	time.Sleep(d)
	exit(0)
}

// note appends a line to one of the files that the test reads. Short appends of several processes do not mix.
func (p *player) note(name, line string) {
	f, err := os.OpenFile(filepath.Join(p.dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	p.must(err)
	_, err = io.WriteString(f, line+"\n")
	p.must(err)
	p.must(f.Close())
}

func (p *player) must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "harnesstest/agent:", err)
		exit(125)
	}
}

// exit ends the process at once. [os.Exit] takes a second in a binary that is built with the race detector.
func exit(status int) { syscall.Exit(status) }
