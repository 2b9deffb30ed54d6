package claude

import (
	"math"

	"agentserver/harness"
	"agentserver/protocol"
)

// accounting turns the CLI's running totals into what a turn used.
//
// modelUsage and total_cost_usd of a result are totals of the process, sub-agents and side calls included; usage is the main agent's alone. So
// the turn's share is the difference of totals. A call that broke off is in the totals of 2.1.332, but of 2.1.197 only sometimes: where they
// cannot hold it, what the provider reported at its start is added.
type accounting struct {
	total, base tokens // of the process, now and at the end of the last turn
	cost, spent float64
	lost        tokens           // of the main agent's calls that broke off in this turn
	settled     tokens           // of its other calls
	session     float64          // cost of all turns
	whole       bool             // session holds all that was spent, also by earlier processes
	baseless    bool             // what the session had used before this process is not known
	window      map[string]int64 // by model
	lastUsed    int64
	lastModel   string
}

type tokens struct{ input, output, thinking, read, write, write5m, write1h int64 }

func (a tokens) plus(b tokens) tokens {
	return tokens{a.input + b.input, a.output + b.output, a.thinking + b.thinking, a.read + b.read, a.write + b.write, a.write5m + b.write5m, a.write1h + b.write1h}
}

func (a tokens) minus(b tokens) tokens {
	return tokens{a.input - b.input, a.output - b.output, a.thinking - b.thinking, a.read - b.read, a.write - b.write, a.write5m - b.write5m, a.write1h - b.write1h}
}

func (a tokens) negative() bool { return a.input < 0 || a.output < 0 || a.read < 0 || a.write < 0 }

func (u apiUsage) tokens() tokens {
	return tokens{u.Input, u.Output, u.OutputDetails.Thinking, u.CacheRead, u.CacheWrite, u.CacheCreation.Ephemeral5m, u.CacheCreation.Ephemeral1h}
}

// covers reports whether a call with usage b can be among a.
func (a tokens) covers(b tokens) bool {
	return a.input >= b.input && a.read >= b.read && a.write >= b.write
}

// seed takes what the session had used before this process. Where that is not known, the first turn counts the main agent's calls only.
func (a *accounting) seed(models map[string]modelUsage, cost float64, known bool) {
	a.baseless = !known
	a.base, a.spent, a.session, a.whole = a.sum(models), cost, cost, cost > 0
	a.total, a.cost = a.base, a.spent
}

// sum adds up the models' totals, and notes their windows.
func (a *accounting) sum(models map[string]modelUsage) tokens {
	var total tokens
	for model, u := range models {
		total = total.plus(tokens{u.Input, u.Output, u.Thinking, u.CacheRead, u.CacheWrite, u.Ephemeral5m, u.Ephemeral1h})
		if u.Window <= 0 {
			continue
		}
		if a.window == nil {
			a.window = map[string]int64{}
		}
		a.window[model] = u.Window
		if u.Canonical != "" {
			a.window[u.Canonical] = u.Window
		}
	}
	return total
}

// result takes the totals of a result.
func (a *accounting) result(l *resultLine) {
	total := a.sum(l.ModelUsage)
	if total.write5m+total.write1h == 0 { // 2.1.197 tells the buckets of the main agent's calls only
		total.write5m = a.total.write5m + l.Usage.CacheCreation.Ephemeral5m
		total.write1h = a.total.write1h + l.Usage.CacheCreation.Ephemeral1h
	}
	a.total, a.cost = total, l.TotalCost
}

// take returns what was used since the last take: nil and nil for a turn that called no model.
func (a *accounting) take() (*protocol.Tokens, *protocol.Cost) {
	if a.baseless {
		a.baseless = false
		a.base, a.spent = a.total.minus(a.settled), a.cost
	}
	used, cost := a.total.minus(a.base), a.cost-a.spent
	if used.negative() || cost < 0 { // the totals began anew
		used, cost = a.total, a.cost
	}
	if !used.minus(a.settled).covers(a.lost) {
		used = used.plus(a.lost)
	}
	a.base, a.spent, a.lost, a.settled = a.total, a.cost, tokens{}, tokens{}
	if used == (tokens{}) && cost == 0 {
		return nil, nil
	}
	cost = math.Round(cost*1e10) / 1e10 // the difference of two sums has noise
	a.session += cost
	t := &protocol.Tokens{Input: used.input, Output: used.output, Reasoning: used.thinking}
	if used.read+used.write > 0 {
		t.Cache = &protocol.CacheTokens{Read: used.read, Write: used.write, WriteEphemeral5m: used.write5m, WriteEphemeral1h: used.write1h}
	}
	if cost == 0 {
		return t, nil // not known: 2.1.197 does not price a call that broke off
	}
	return t, protocol.USD(cost)
}

// size returns the window of the model in use; 0 until a result or the model's name has told it.
func (a *accounting) size(configured string) int64 {
	if n := a.window[configured]; n > 0 {
		return n
	}
	if n := a.window[a.lastModel]; n > 0 {
		return n
	}
	if len(configured) > 4 && configured[len(configured)-4:] == "[1m]" {
		return 1_000_000
	}
	return 0
}

// gauge reports how much of the window the main agent's last call filled.
func (t *translator) gauge(u apiUsage) {
	used := u.context()
	if used == 0 {
		return
	}
	t.acct.lastUsed = used
	if t.main != nil {
		t.acct.lastModel = t.main.model
	}
	if t.turn.active || t.opened {
		t.emit(harness.Usage{Used: used, Size: t.acct.size(t.model)})
	}
}

// finalGauge repeats the gauge at the end of a turn: only now are the window's size and the cost known.
func (t *translator) finalGauge(used *protocol.Tokens) {
	if t.acct.lastUsed == 0 || used == nil {
		return
	}
	e := harness.Usage{Used: t.acct.lastUsed, Size: t.acct.size(t.model)}
	if t.acct.whole {
		e.Cost = protocol.USD(math.Round(t.acct.session*1e10) / 1e10)
	}
	t.emit(e)
}
