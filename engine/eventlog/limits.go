package eventlog

// Limits bounds what a [Store] holds. The zero value of each field means its default.
type Limits struct {
	// SessionEvents and SessionBytes bound one session's log. [DefaultSessionEvents] and 16 MiB by default.
	SessionEvents int
	SessionBytes  int64
	// TotalEvents and TotalBytes bound all logs together. 1 Mi events and 512 MiB by default.
	TotalEvents int
	TotalBytes  int64
	// RememberedSessions bounds how many sessions without a log keep their last number: those closed last. 65536 by default, at about 80 bytes each.
	RememberedSessions int
}

func (l Limits) withDefaults() Limits {
	orDefault(&l.SessionEvents, DefaultSessionEvents)
	orDefault(&l.SessionBytes, 16<<20)
	orDefault(&l.TotalEvents, 1<<20)
	orDefault(&l.TotalBytes, 512<<20)
	orDefault(&l.RememberedSessions, 1<<16)
	return l
}

func orDefault[N int | int64](n *N, def N) {
	if *n <= 0 {
		*n = def
	}
}

// DefaultSessionEvents is the default of [Limits.SessionEvents].
const DefaultSessionEvents = 4096
