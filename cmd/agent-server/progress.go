package main

import (
	"io"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"agentserver/protocol"
)

// A progressView shows the notices of one turn that have a progress: as a bar on a terminal, else as a line at each quarter. The zero value is not
// for use; see [newProgressView].
type progressView struct {
	line    func(message string)
	out     io.Writer // nil: lines
	bars    *mpb.Progress
	bar     *mpb.Bar
	quarter int64
}

func newProgressView(out io.Writer, line func(string)) *progressView {
	v := &progressView{line: line, quarter: -1}
	if isTerminal(out) {
		v.out = out
	}
	return v
}

// show takes a notice with a progress.
func (v *progressView) show(n *protocol.SessionNotice) {
	p := n.Progress
	if v.out == nil {
		if q := 4 * p.Done / max(p.Total, 1); q != v.quarter {
			v.quarter = q
			v.line(n.Message)
		}
		return
	}
	if p.Total == 0 {
		return
	}
	if v.bar == nil {
		v.bars = mpb.New(mpb.WithOutput(v.out), mpb.WithWidth(64))
		v.bar = v.bars.AddBar(p.Total, mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name("downloading the agent ")), mpb.AppendDecorators(decor.CountersKibiByte("% .0f / % .0f")))
	}
	v.bar.SetCurrent(p.Done)
}

// end takes the bar away: what comes next is no progress. It is idempotent.
func (v *progressView) end() {
	if v.bar != nil {
		v.bar.Abort(true)
		v.bars.Wait()
		v.bar = nil
	}
}
