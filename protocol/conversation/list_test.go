package conversation

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestListModel holds a list, and every former version of it, against slices.
func TestListModel(t *testing.T) {
	type version struct {
		list List[int]
		want []int
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var l List[int]
	var want []int
	var old []version
	for step := range 12_000 {
		if len(want) == 0 || rng.IntN(3) > 0 {
			l, want = l.push(step), append(want, step)
		} else {
			i := rng.IntN(len(want))
			l, want = l.set(i, -step), slices.Clone(want)
			want[i] = -step
		}
		if step%377 == 0 {
			old = append(old, version{l, slices.Clone(want)})
		}
	}
	old = append(old, version{l, want})
	for _, v := range old {
		if v.list.Len() != len(v.want) || !slices.Equal(v.list.Slice(), v.want) {
			t.Fatalf("a list of %d elements is not what was put in", len(v.want))
		}
		for i := range v.want {
			if v.list.At(i) != v.want[i] {
				t.Fatalf("At(%d) = %d, want %d", i, v.list.At(i), v.want[i])
			}
		}
		from := len(v.want) / 3
		for i, x := range v.list.From(from) {
			if i != from || x != v.want[i] {
				t.Fatalf("From: at %d got %d, %d", from, i, x)
			}
			from++
		}
	}
}

// TestListDetached lets two lists grow from one.
func TestListDetached(t *testing.T) {
	var l List[int]
	for i := range 35 {
		l = l.push(i)
	}
	a, b := l.push(100), l.detached().push(200)
	if a.At(35) != 100 || b.At(35) != 200 {
		t.Errorf("got %d and %d, want 100 and 200", a.At(35), b.At(35))
	}
}
