package codex

import "agentserver/protocol"

// tokenCount is what codex counts, for one call or for a thread. Input includes cached tokens, output includes reasoning.
type tokenCount struct {
	Total      int64 `json:"totalTokens"`
	Input      int64 `json:"inputTokens"`
	Cached     int64 `json:"cachedInputTokens"`
	CacheWrite int64 `json:"cacheWriteInputTokens"`
	Output     int64 `json:"outputTokens"`
	Reasoning  int64 `json:"reasoningOutputTokens"`
}

func (a tokenCount) minus(b tokenCount) tokenCount {
	return tokenCount{a.Total - b.Total, a.Input - b.Input, a.Cached - b.Cached, a.CacheWrite - b.CacheWrite, a.Output - b.Output, a.Reasoning - b.Reasoning}
}

func (a tokenCount) plus(b tokenCount) tokenCount {
	return tokenCount{a.Total + b.Total, a.Input + b.Input, a.Cached + b.Cached, a.CacheWrite + b.CacheWrite, a.Output + b.Output, a.Reasoning + b.Reasoning}
}

func (a tokenCount) negative() bool { return a.Input < 0 || a.Output < 0 || a.Cached < 0 }

// tokens unfolds the counts; nil when there are none.
func (a tokenCount) tokens() *protocol.Tokens {
	if a.Input <= 0 && a.Output <= 0 {
		return nil
	}
	t := &protocol.Tokens{Input: max(a.Input-a.Cached-a.CacheWrite, 0), Output: a.Output, Reasoning: a.Reasoning}
	if a.Cached > 0 || a.CacheWrite > 0 {
		t.Cache = &protocol.CacheTokens{Read: a.Cached, Write: a.CacheWrite}
	}
	return t
}

// accounting turns a thread's running totals into what a turn used.
type accounting struct {
	known       bool // base is
	base, total tokenCount
}

// take returns what was used since the last take.
func (a *accounting) take() tokenCount {
	used := a.total.minus(a.base)
	if used.negative() { // the totals began anew
		used = a.total
	}
	a.base = a.total
	return used
}

// update takes a thread's new totals. last is the newest call, from which the base of a thread that an earlier process began is told.
func (a *accounting) update(total, last tokenCount) {
	if !a.known {
		a.known = true
		a.base = total.minus(last)
		if a.base.negative() {
			a.base = tokenCount{}
		}
	}
	a.total = total
}
