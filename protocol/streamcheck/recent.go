package streamcheck

// recent is a bounded memory: adding beyond the bound forgets the oldest. The zero value with max set is empty.
type recent[K comparable, V any] struct {
	max   int
	byKey map[K]V
	order []K // a ring once it is full
	next  int
	// forgot says that something was forgotten.
	forgot bool
}

func (r *recent[K, V]) get(k K) (V, bool) {
	v, ok := r.byKey[k]
	return v, ok
}

// put adds or replaces.
func (r *recent[K, V]) put(k K, v V) {
	if r.byKey == nil {
		r.byKey = make(map[K]V)
	}
	if _, known := r.byKey[k]; !known {
		if len(r.order) < r.max {
			r.order = append(r.order, k)
		} else {
			delete(r.byKey, r.order[r.next])
			r.forgot = true
			r.order[r.next] = k
			r.next = (r.next + 1) % r.max
		}
	}
	r.byKey[k] = v
}
