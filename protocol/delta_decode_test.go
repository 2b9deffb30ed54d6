package protocol

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

const plainDelta = `{"type":"message.part.delta","sessionId":"s","timestamp":17,"turnId":"t","messageId":"m","outputIndex":1,"partIndex":0,"partId":"p","delta":{"type":"text","text":"a\u00e9\n<&> 世界"}}`

// TestPlainDelta: the quick way takes what this package writes, and nothing that the general way would see differently.
func TestPlainDelta(t *testing.T) {
	quick := func(event string) bool {
		t.Helper()
		return agree(t, []byte(event))
	}
	if !quick(plainDelta) || !quick(strings.Replace(plainDelta, `"type":"text"`, `"type":"reasoning"`, 1)) || !quick(strings.Replace(plainDelta, `{"type":"message.part.delta",`, "{ ", 1)[:2]+` "type" : "message.part.delta" ,`+plainDelta[len(`{"type":"message.part.delta",`):]) {
		t.Error("a plain delta is decoded the slow way")
	}
	for _, change := range [][2]string{
		{`"turnId":"t"`, `"turnId":"t","turnId":"u"`}, {`"turnId":"t"`, `"turnID":"t"`}, {`"turnId":"t",`, ``}, {`"turnId":"t"`, `"turnId":""`},
		{`"turnId":"t"`, `"turnId":7`}, {`"turnId":"t"`, `"turnId":null`}, {`"turnId":"t"`, `"turnId":"t","new":1`}, {`"turnId":"t"`, `"turnId":"t","_meta":{"a":1}`},
		{`"outputIndex":1`, `"outputIndex":-1`}, {`"outputIndex":1`, `"outputIndex":1.0`}, {`"outputIndex":1`, `"outputIndex":1e0`}, {`"outputIndex":1`, `"outputIndex":-0`},
		{`"outputIndex":1`, `"outputIndex":99999999999999999999`}, {`"timestamp":17`, `"timestamp":"17"`}, {`"timestamp":17`, `"timestamp":1.5`},
		{`"type":"text","text"`, `"type":"text","more":1,"text"`}, {`"type":"text","text"`, `"type":"text","Text"`}, {`"type":"text",`, ``},
		{`"type":"text"`, `"type":"tool_input"`}, {`"type":"text"`, `"type":"new"`}, {`"text":"a`, `"text":7,"x":"a`}, {`"sessionId":"s"`, `"sessionId":""`},
		{`"text":"a`, `"text":"\ud800`}, {`"text":"a`, "\"text\":\"\xff"}, {`"partId":"p"`, `"part\u0049d":"p"`}, {`"partId":"p"`, `"partId":" "`},
		{`"delta":{`, `"delta":[],"x":{`}, {`"delta":{`, `"delta":null,"x":{`},
	} {
		agree(t, []byte(strings.Replace(plainDelta, change[0], change[1], 1)))
	}
}

// agree decodes data both ways, fails unless what the quick way takes is what the general way makes of it, and reports whether it took it.
func agree(t *testing.T, data []byte) bool {
	t.Helper()
	quick := decodePlainDelta(data)
	if quick == nil {
		return false
	}
	general := new(MessagePartDelta)
	if err := decodeMember(data, general); err != nil {
		t.Errorf("the quick way takes what the general one refuses with %v:\n%s", err, data)
	} else if !reflect.DeepEqual(quick, general) {
		t.Errorf("quick   %+v %+v\ngeneral %+v %+v\n%s", quick, quick.Delta, general, general.Delta, data)
	}
	return true
}

func FuzzPlainDelta(f *testing.F) {
	f.Add([]byte(plainDelta))
	f.Add([]byte(`{"type":"message.part.delta","sessionId":"s","timestamp":-1,"turnId":"t","messageId":"m","outputIndex":0,"partIndex":2,"partId":"\"","delta":{"text":"","type":"reasoning"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if json.Valid(data) {
			agree(t, data)
		}
	})
}

func BenchmarkDecodeDelta(b *testing.B) {
	for b.Loop() {
		if _, err := DecodeEvent([]byte(plainDelta)); err != nil {
			b.Fatal(err)
		}
	}
}
