package jsonscan_test

import (
	"encoding/json"
	"testing"

	"agentserver/protocol/jsonscan"
)

func TestObject(t *testing.T) {
	in := `  { "a" : "x\"y" , "b":{"c":[1,{"d":"}"}]},"\u0065":-1.5e3, "f":null,"g":true,"":[] }`
	want := [][2]string{{"a", `"x\"y"`}, {"b", `{"c":[1,{"d":"}"}]}`}, {"e", "-1.5e3"}, {"f", "null"}, {"g", "true"}, {"", "[]"}}
	o := jsonscan.NewObject([]byte(in))
	for _, w := range want {
		if !o.Next() {
			t.Fatalf("no member %q", w[0])
		}
		if o.Key() != w[0] || !o.Is(w[0]) || string(o.Value()) != w[1] {
			t.Errorf("got %q = %s, want %q = %s", o.Key(), o.Value(), w[0], w[1])
		}
	}
	if o.Next() {
		t.Errorf("unexpected member %q", o.Key())
	}
	if got := jsonscan.String(jsonscan.Get([]byte(in), "a")); got != `x"y` {
		t.Errorf("Get = %q", got)
	}
}

func TestScalars(t *testing.T) {
	if !jsonscan.Equal([]byte(`"abc"`), "abc") || !jsonscan.Equal([]byte(`"\u0061bc"`), "abc") || jsonscan.Equal([]byte(`abc`), "abc") {
		t.Error("Equal")
	}
	if n, ok := jsonscan.Int([]byte("-12")); n != -12 || !ok {
		t.Error("Int")
	}
	if _, ok := jsonscan.Int([]byte("1.5")); ok {
		t.Error("Int took a fraction")
	}
	if !jsonscan.IsNull(nil) || !jsonscan.IsNull([]byte("null")) || jsonscan.IsNull([]byte("0")) {
		t.Error("IsNull")
	}
}

// FuzzObject holds the walker to encoding/json: the same names and values on valid input, no panic on any.
func FuzzObject(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1}`, `{"a":{"b":"\\\""},"a":[]}`, `{"\ud800":"\u00ff"}`, "{\"\xff\":\"\xfe\"}", `{"a"`, `[`, `{"a":}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got := map[string]string{}
		for o := jsonscan.NewObject(data); o.Next(); {
			got[o.Key()] = string(o.Value())
		}
		var want map[string]json.RawMessage
		if json.Unmarshal(data, &want) != nil {
			return
		}
		if len(got) != len(want) {
			t.Fatalf("%d members, want %d", len(got), len(want))
		}
		for k, v := range want {
			if got[k] != string(v) {
				t.Errorf("%q = %s, want %s", k, got[k], v)
			}
		}
	})
}
