package fakemodel

// Usage counts the tokens of one model call, in the terms of the Anthropic API: the parts do not overlap.
// Dialects whose input count includes cached tokens report Input + CacheCreation + CacheRead as input and
// CacheRead as cached.
type Usage struct {
	Input         int
	CacheCreation int
	CacheRead     int
	Output        int
	Reasoning     int // part of Output
}

// DefaultUsage is what every reply reports unless the script says USAGE. Its zero Output means a quarter
// of the characters that the reply streamed, rounded up per block, at least 1.
var DefaultUsage = Usage{Input: 100, CacheCreation: 20, CacheRead: 3}

// Add returns the sums of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input:         u.Input + v.Input,
		CacheCreation: u.CacheCreation + v.CacheCreation,
		CacheRead:     u.CacheRead + v.CacheRead,
		Output:        u.Output + v.Output,
		Reasoning:     u.Reasoning + v.Reasoning,
	}
}

// A UsageRecord is what one model call reported to the CLI. A call that failed, was dropped or was cut short by the
// client has Complete false: a client may have seen none, some or all of its numbers.
type UsageRecord struct {
	Call     int    // number of the model call on this server, from 1
	API      API    // the dialect
	Session  string // the CLI's session or thread id, "" if it sends none
	Turn     string // the CLI's turn id; where it sends none, the ordinal of the scripted user text, from 1
	Model    string
	Usage    Usage
	Complete bool
}

// Usage returns one record for each model call that got as far as a stream, in order.
func (s *Server) Usage() []UsageRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]UsageRecord(nil), s.usage...)
}

// TotalUsage sums the complete calls of a session and turn; "" matches all.
func (s *Server) TotalUsage(session, turn string) Usage {
	var sum Usage
	for _, r := range s.Usage() {
		if r.Complete && (session == "" || r.Session == session) && (turn == "" || r.Turn == turn) {
			sum = sum.Add(r.Usage)
		}
	}
	return sum
}
