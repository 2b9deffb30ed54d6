package eventlog

import "agentserver/protocol"

// EstimateBase is what [Estimate] returns for an event that holds little: its ids and the envelope around it, in bytes.
const EstimateBase = 320

// Estimate returns about how many bytes the event's JSON will take. It stands for the entry's size until the entry is encoded; what matters is
// that it grows with every field that can be large.
func Estimate(event protocol.Event) int {
	const envelope = EstimateBase
	switch e := event.(type) {
	case *protocol.MessagePartDelta:
		return envelope + estimateDelta(e.Delta)
	case *protocol.MessagePart:
		return envelope + 64 + estimatePart(e.Part)
	case *protocol.Raw:
		return envelope + len(e.Data)
	case *protocol.PermissionRequested:
		n := 2*envelope + len(e.Title)
		if e.ToolCall != nil {
			n += len(e.ToolCall.RawInput) + len(e.ToolCall.Title) + estimateLocations(e.ToolCall.Locations)
		}
		return n
	case *protocol.PermissionResolved:
		return envelope + len(e.Outcome.UpdatedInput)
	case *protocol.SessionCompaction:
		return envelope + len(e.Summary)
	case *protocol.SessionNotice:
		return envelope + len(e.Message)
	case *protocol.ErrorEvent:
		return envelope + len(e.Message) + len(e.Stack)
	case *protocol.TurnEnded:
		n := envelope + len(e.FinishReason) + len(e.Meta)
		if e.Error != nil {
			n += len(e.Error.Message)
		}
		return n
	case *protocol.UnknownEvent:
		return envelope + len(e.JSON())
	}
	return envelope
}

func estimateDelta(delta protocol.Delta) int {
	switch d := delta.(type) {
	case *protocol.TextDelta:
		return len(d.Text)
	case *protocol.ReasoningDelta:
		return len(d.Text)
	case *protocol.ToolInputDelta:
		return len(d.Input) + len(d.ToolCallID) + len(d.ToolName)
	case *protocol.UnknownDelta:
		return len(d.JSON())
	}
	return 0
}

func estimatePart(part protocol.Part) int {
	switch p := part.(type) {
	case *protocol.TextPart:
		return len(p.Text) + len(p.Meta)
	case *protocol.ReasoningPart:
		return len(p.Text) + len(p.ProviderMetadata) + len(p.Meta)
	case *protocol.ToolPart:
		return 128 + len(p.Title) + len(p.Meta) + estimateLocations(p.Locations) + estimateState(p.State)
	case *protocol.ImagePart:
		return len(p.Data) + len(p.URL) + len(p.Meta)
	case *protocol.FilePart:
		return len(p.Data) + len(p.URL) + len(p.Meta)
	case *protocol.UnknownPart:
		return len(p.JSON())
	}
	return 0
}

func estimateState(state protocol.ToolState) int {
	switch s := state.(type) {
	case *protocol.ToolPending:
		return len(s.PartialInput) + len(s.Meta)
	case *protocol.ToolInProgress:
		return len(s.Input) + len(s.Title) + len(s.Meta)
	case *protocol.ToolCompleted:
		n := len(s.Input) + len(s.Output) + len(s.Metadata) + len(s.Title) + len(s.Meta)
		for i := range s.Content {
			c := &s.Content[i]
			n += 64 + len(c.Text) + len(c.Data) + len(c.Path)
			if c.OldText != nil {
				n += len(*c.OldText)
			}
			if c.NewText != nil {
				n += len(*c.NewText)
			}
		}
		return n
	case *protocol.ToolFailed:
		return len(s.Input) + len(s.Error) + len(s.Meta)
	case *protocol.ToolCancelled:
		return len(s.Input) + len(s.Meta)
	}
	return 0
}

func estimateLocations(all []protocol.Location) int {
	n := 0
	for _, l := range all {
		n += 32 + len(l.Path)
	}
	return n
}
