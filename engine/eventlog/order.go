package eventlog

import "sort"

// An order is the process-wide sequence of the entries that are held, oldest first. Entries leave it from any place; what they leave is a hole,
// and the slots are packed when there would be more holes than entries. Adding and removing are O(1) amortized, finding a place is O(log n).
type order struct {
	slots []slot // slots[:head] are holes
	head  int
	live  int
}

// A slot keeps the position of an entry that is gone, so that the slots stay searchable.
type slot struct {
	pos   uint64
	entry *Entry
}

func (o *order) push(e *Entry) {
	if len(o.slots) == cap(o.slots) && o.live <= len(o.slots)/2 {
		o.pack()
	}
	e.slot = len(o.slots)
	o.slots = append(o.slots, slot{e.pos, e})
	o.live++
}

func (o *order) remove(e *Entry) {
	o.slots[e.slot].entry = nil
	o.live--
	for o.head < len(o.slots) && o.slots[o.head].entry == nil {
		o.head++
	}
}

// after returns the index of the first slot whose position is above pos.
func (o *order) after(pos uint64) int {
	rest := o.slots[o.head:]
	return o.head + sort.Search(len(rest), func(i int) bool { return rest[i].pos > pos })
}

// pack closes the holes, and gives memory back when little is left of much.
func (o *order) pack() {
	to := o.slots[:0]
	if cap(o.slots) > 1024 && o.live < cap(o.slots)/8 {
		to = make([]slot, 0, 2*o.live+64)
	}
	for _, s := range o.slots[o.head:] {
		if s.entry != nil {
			s.entry.slot = len(to)
			to = append(to, s)
		}
	}
	if n := len(to); cap(to) == cap(o.slots) {
		clear(o.slots[n:])
	}
	o.slots, o.head = to, 0
}
