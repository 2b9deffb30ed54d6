package conversation

import (
	"encoding/json"
	"iter"
)

const (
	listBits  = 5
	listWidth = 1 << listBits
)

// A List is an immutable sequence. Lists that grew from one another share what they have in common. The zero value is empty. It is safe for
// concurrent use. Reading an element takes O(log n) with base 32.
type List[T any] struct {
	n     int
	depth int // levels of nodes under root; 0 when all is in the tail
	root  *listNode[T]
	tail  []T // the last 1 to 32 elements
}

// listNode is an inner node (kids) or a leaf (items). Nodes are never changed once a list refers to them.
type listNode[T any] struct {
	kids  []*listNode[T]
	items []T
}

// Len returns the number of elements.
func (l List[T]) Len() int { return l.n }

// At returns the element at i, which must lie in [0, Len).
func (l List[T]) At(i int) T {
	if start := l.n - len(l.tail); i >= start {
		return l.tail[i-start]
	}
	node := l.root
	for level := l.depth - 1; level > 0; level-- {
		node = node.kids[i>>(level*listBits)&(listWidth-1)]
	}
	return node.items[i&(listWidth-1)]
}

// All ranges over index and element.
func (l List[T]) All() iter.Seq2[int, T] { return l.From(0) }

// From ranges over index and element from index i on.
func (l List[T]) From(i int) iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		for i := max(i, 0); i < l.n; {
			run := l.run(i)
			for _, x := range run {
				if !yield(i, x) {
					return
				}
				i++
			}
		}
	}
}

// Slice returns the elements in a new slice.
func (l List[T]) Slice() []T {
	out := make([]T, 0, l.n)
	for i := 0; i < l.n; {
		run := l.run(i)
		out = append(out, run...)
		i += len(run)
	}
	return out
}

// run returns the elements from i on that lie in one piece.
func (l List[T]) run(i int) []T {
	if start := l.n - len(l.tail); i >= start {
		return l.tail[i-start:]
	}
	node := l.root
	for level := l.depth - 1; level > 0; level-- {
		node = node.kids[i>>(level*listBits)&(listWidth-1)]
	}
	return node.items[i&(listWidth-1):]
}

// MarshalJSON writes an array.
func (l List[T]) MarshalJSON() ([]byte, error) { return json.Marshal(l.Slice()) }

// push returns the list with x behind it. Only the newest of the lists that grew from one another may be pushed to: the tail grows in place, where
// older lists do not look.
func (l List[T]) push(x T) List[T] {
	if len(l.tail) == listWidth {
		leaf := &listNode[T]{items: l.tail}
		if l.depth == 0 {
			l.root, l.depth = leaf, 1
		} else if l.n-listWidth == 1<<(l.depth*listBits) { // the trie is full
			l.root = &listNode[T]{kids: []*listNode[T]{l.root, chain(leaf, l.depth-1)}}
			l.depth++
		} else {
			l.root = l.root.with(l.n-listWidth, l.depth-1, leaf)
		}
		l.tail = nil
	}
	l.tail = append(l.tail, x)
	l.n++
	return l
}

// chain returns a node of the given level that holds leaf only.
func chain[T any](leaf *listNode[T], level int) *listNode[T] {
	for range level {
		leaf = &listNode[T]{kids: []*listNode[T]{leaf}}
	}
	return leaf
}

// with returns a copy of an inner node of the given level in which leaf holds the elements from i on.
func (n *listNode[T]) with(i, level int, leaf *listNode[T]) *listNode[T] {
	kids := make([]*listNode[T], len(n.kids), len(n.kids)+1)
	copy(kids, n.kids)
	slot := i >> (level * listBits) & (listWidth - 1)
	switch {
	case slot == len(kids):
		kids = append(kids, chain(leaf, level-1))
	case level == 1:
		kids[slot] = leaf
	default:
		kids[slot] = kids[slot].with(i, level-1, leaf)
	}
	return &listNode[T]{kids: kids}
}

// set returns the list with x at i.
func (l List[T]) set(i int, x T) List[T] {
	if start := l.n - len(l.tail); i >= start {
		tail := make([]T, len(l.tail), min(cap(l.tail), listWidth))
		copy(tail, l.tail)
		tail[i-start] = x
		l.tail = tail
		return l
	}
	items := append([]T(nil), l.run(i&^(listWidth-1))...)
	items[i&(listWidth-1)] = x
	leaf := &listNode[T]{items: items}
	if l.depth == 1 {
		l.root = leaf
	} else {
		l.root = l.root.with(i, l.depth-1, leaf)
	}
	return l
}

// detached returns the list with a tail that the next push does not grow in place.
func (l List[T]) detached() List[T] {
	l.tail = l.tail[:len(l.tail):len(l.tail)]
	return l
}
