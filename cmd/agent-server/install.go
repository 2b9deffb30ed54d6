package main

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"agentserver/provision"
)

const installLong = `Download what the harnesses need into the cache, whatever the host has installed, and check it.

  agent-server install                          claude and codex
  agent-server install --harness claude-code    only claude
  agent-server install --force                  again, replacing what is there

In an image or a snapshot this is all that has to run; serve with --provision pinned afterwards.`

func newInstallCmd(g *globals) *cobra.Command {
	var harnesses []string
	var force bool
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Download the pinned CLIs into the cache",
		Long:  installLong,
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tools, err := toolsOf(harnesses)
			if err != nil {
				return err
			}
			p, err := g.openProvisioner(cmd)
			if err != nil {
				return err
			}
			defer p.Close()
			return install(cmd.Context(), p, tools, force, cmd.OutOrStdout(), newInstallView(cmd.ErrOrStderr()))
		},
	}
	cmd.Flags().StringSliceVar(&harnesses, "harness", nil, "install for these `harnesses` only: "+installable())
	cmd.Flags().BoolVar(&force, "force", false, "download even what is installed, and replace it")
	return cmd
}

// install brings the tools into the cache side by side and prints a line for each.
func install(ctx context.Context, p *provision.Provisioner, tools []provision.Tool, force bool, out io.Writer, view installView) error {
	results := make([]error, len(tools))
	lines := make([]string, len(tools))
	var wg sync.WaitGroup
	for i, tool := range tools {
		wg.Go(func() {
			report, done := view.follow(tool)
			exe, err := p.Install(ctx, tool, provision.InstallOptions{Force: force, Progress: report})
			done(err == nil)
			results[i] = err
			lines[i] = fmt.Sprintf("%s %s ready: %s (%s)\n", tool, exe.Version, exe.Path, exe.Source)
		})
	}
	wg.Wait()
	view.close()
	failed := 0
	for i, err := range results {
		if err != nil {
			failed++
			fmt.Fprintf(view.errOut(), "%s: %v\n", tools[i], err)
			continue
		}
		io.WriteString(out, lines[i])
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d could not be installed, for the reasons above", failed, len(tools))
	}
	return nil
}

// An installView shows installations that run side by side. follow is called by each installation's goroutine.
type installView interface {
	follow(tool provision.Tool) (report func(provision.Progress), done func(ok bool))
	close()
	errOut() io.Writer
}

func newInstallView(errOut io.Writer) installView {
	if isTerminal(errOut) {
		return &barView{out: errOut, bars: mpb.New(mpb.WithOutput(errOut), mpb.WithWidth(64))}
	}
	return &lineView{out: errOut}
}

// barView draws one bar for each download.
type barView struct {
	out  io.Writer
	bars *mpb.Progress
}

func (v *barView) errOut() io.Writer { return v.out }
func (v *barView) close()            { v.bars.Wait() }

func (v *barView) follow(provision.Tool) (func(provision.Progress), func(bool)) {
	var bar *mpb.Bar
	report := func(p provision.Progress) {
		if p.Total == 0 {
			return
		}
		if bar == nil {
			bar = v.bars.AddBar(p.Total,
				mpb.PrependDecorators(decor.Name(fmt.Sprintf("%-7s%-9s", p.Tool, p.Version))),
				mpb.AppendDecorators(decor.CountersKibiByte("% .0f / % .0f"), decor.Name(" "), decor.AverageSpeed(decor.SizeB1024(0), "% .0f")))
		}
		bar.SetCurrent(p.Done)
	}
	return report, func(ok bool) {
		if bar == nil {
			return
		}
		if ok {
			bar.SetTotal(-1, true)
			return
		}
		bar.Abort(false)
	}
}

// lineView prints a line at each new stage and at each quarter of a download.
type lineView struct {
	mu  sync.Mutex // serialises writes to out
	out io.Writer
}

func (v *lineView) errOut() io.Writer { return v.out }
func (v *lineView) close()            {}

func (v *lineView) follow(provision.Tool) (func(provision.Progress), func(bool)) {
	var stage provision.Stage
	var quarter int64
	report := func(p provision.Progress) {
		q := 4 * p.Done / max(p.Total, 1)
		if p.Stage == stage && q == quarter {
			return
		}
		stage, quarter = p.Stage, q
		v.mu.Lock()
		defer v.mu.Unlock()
		fmt.Fprintln(v.out, p)
	}
	return report, func(bool) {}
}
