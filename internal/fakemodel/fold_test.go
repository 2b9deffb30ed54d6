package fakemodel

import (
	"encoding/json"
	"fmt"
)

// folders make the fold function of each dialect.
var folders = map[API]func(*answer) func(name string, data []byte){
	Anthropic: foldMessages, OpenAIResponses: foldResponses, OpenAIChat: foldChat, Gemini: foldGemini,
}

type wireUsage struct {
	Input         int `json:"input_tokens"`
	CacheCreation int `json:"cache_creation_input_tokens"`
	CacheRead     int `json:"cache_read_input_tokens"`
	Output        int `json:"output_tokens"`
}

func (u wireUsage) usage() Usage {
	return Usage{Input: u.Input, CacheCreation: u.CacheCreation, CacheRead: u.CacheRead, Output: u.Output}
}

func foldMessages(a *answer) func(string, []byte) {
	block := -1
	return func(name string, data []byte) {
		var e struct {
			Type  string
			Index int
			Block struct{ Type, Name, ID string } `json:"content_block"`
			Delta struct {
				Text, Thinking string
				JSON           string `json:"partial_json"`
				Stop           string `json:"stop_reason"`
			}
			Usage wireUsage
			Error struct{ Message string }
		}
		must(json.Unmarshal(data, &e))
		if e.Type != name {
			panic("event name " + name + " is not its type " + e.Type)
		}
		switch e.Type {
		case "content_block_start":
			if block++; e.Index != block {
				panic(fmt.Sprintf("block index %d, want %d", e.Index, block))
			}
			if e.Block.Type == "tool_use" {
				a.tools = append(a.tools, e.Block.Name+" ")
			}
		case "content_block_delta":
			a.deltas++
			a.text += e.Delta.Text
			a.thinking += e.Delta.Thinking
			if e.Delta.JSON != "" {
				a.tools[len(a.tools)-1] += e.Delta.JSON
			}
		case "message_delta":
			a.stop, a.usage = e.Delta.Stop, e.Usage.usage()
		case "message_stop":
			a.cut = false
		case "error":
			a.failure = e.Error.Message
		}
	}
}

// responsesBody is a response object.
type responsesBody struct {
	Status string
	Output []struct {
		Type, Name, Arguments, Input string
		Content, Summary             []struct{ Text string }
	}
	Usage struct {
		Input   int `json:"input_tokens"`
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		Output  int `json:"output_tokens"`
		Outputs struct {
			Reasoning int `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	}
	Incomplete struct{ Reason string } `json:"incomplete_details"`
	Error      struct{ Code, Message string }
}

// fold takes over the whole response; deltas must have told the same text before.
func (r responsesBody) fold(a *answer) {
	a.text, a.thinking, a.tools = "", "", nil
	for _, it := range r.Output {
		for _, c := range it.Content {
			if it.Type == "message" {
				a.text += c.Text
			}
		}
		for _, c := range it.Summary {
			a.thinking += c.Text
		}
		if it.Name != "" {
			a.tools = append(a.tools, it.Name+" "+it.Arguments+it.Input)
		}
	}
	a.stop = orElse(r.Incomplete.Reason, r.Status)
	a.failure = r.Error.Message
	a.usage = Usage{Input: r.Usage.Input - r.Usage.Details.Cached, CacheRead: r.Usage.Details.Cached, Output: r.Usage.Output, Reasoning: r.Usage.Outputs.Reasoning}
}

func foldResponses(a *answer) func(string, []byte) {
	seq, text := 0, ""
	return func(name string, data []byte) {
		var e struct {
			Type     string
			Seq      int `json:"sequence_number"`
			Delta    string
			Response responsesBody
		}
		must(json.Unmarshal(data, &e))
		if e.Type != name || e.Seq != seq {
			panic(fmt.Sprintf("event %s of type %s has number %d, want %d", name, e.Type, e.Seq, seq))
		}
		seq++
		if e.Delta != "" {
			a.deltas++
		}
		switch e.Type {
		case "response.output_text.delta":
			text += e.Delta
			a.text = text
		case "response.completed", "response.incomplete", "response.failed":
			e.Response.fold(a)
			a.cut = false
			if a.text != text {
				panic("the deltas told " + text + " and the response " + a.text)
			}
		}
	}
}

type chatMessage struct {
	Content   string
	Reasoning string `json:"reasoning_content"`
	Calls     []struct {
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

// fold adds a message or a delta.
func (m chatMessage) fold(a *answer) {
	a.text += m.Content
	a.thinking += m.Reasoning
	for _, c := range m.Calls {
		if c.ID != "" {
			a.tools = append(a.tools, c.Function.Name+" ")
		}
		a.tools[len(a.tools)-1] += c.Function.Arguments
	}
	if m.Content+m.Reasoning != "" || m.Calls != nil {
		a.deltas++
	}
}

func foldChat(a *answer) func(string, []byte) {
	return func(_ string, data []byte) {
		var e struct {
			Choices []struct {
				Delta, Message chatMessage
				Finish         string `json:"finish_reason"`
			}
			Usage struct {
				Prompt     int `json:"prompt_tokens"`
				Completion int `json:"completion_tokens"`
				Details    struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
				Outputs struct {
					Reasoning int `json:"reasoning_tokens"`
				} `json:"completion_tokens_details"`
			}
			Error struct{ Message string }
		}
		must(json.Unmarshal(data, &e))
		a.failure = e.Error.Message
		for _, c := range e.Choices {
			c.Delta.fold(a)
			c.Message.fold(a)
			a.stop = c.Finish
		}
		u := e.Usage
		a.usage = Usage{Input: u.Prompt - u.Details.Cached, CacheRead: u.Details.Cached, Output: u.Completion, Reasoning: u.Outputs.Reasoning}
	}
}

func foldGemini(a *answer) func(string, []byte) {
	return func(_ string, data []byte) {
		var e struct {
			Candidates []struct {
				Content struct {
					Parts []struct {
						Text    string
						Thought bool
						Call    *struct {
							Name string
							Args json.RawMessage
						} `json:"functionCall"`
					}
				}
				Finish string `json:"finishReason"`
			}
			Usage struct{ PromptTokenCount, CachedContentTokenCount, CandidatesTokenCount, ThoughtsTokenCount int } `json:"usageMetadata"`
			Error struct{ Message string }
		}
		must(json.Unmarshal(data, &e))
		a.failure = e.Error.Message
		for _, c := range e.Candidates {
			for _, p := range c.Content.Parts {
				switch {
				case p.Call != nil:
					a.tools = append(a.tools, p.Call.Name+" "+string(p.Call.Args))
				case p.Thought:
					a.thinking += p.Text
				default:
					a.text += p.Text
				}
				a.deltas++
			}
			a.stop = c.Finish
			a.cut = a.cut && c.Finish == ""
		}
		u := e.Usage
		a.usage = Usage{
			Input: u.PromptTokenCount - u.CachedContentTokenCount, CacheRead: u.CachedContentTokenCount,
			Output: u.CandidatesTokenCount + u.ThoughtsTokenCount, Reasoning: u.ThoughtsTokenCount,
		}
	}
}
