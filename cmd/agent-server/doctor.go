package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agentserver/provision"
)

const doctorLong = `Show, for each harness, which CLI would run and why, whether credentials seem to be there (by name, never by value), the
state of the cache, and whether the npm registry answers. It changes nothing and downloads nothing.

It exits with 1 when no harness could run.`

func newDoctorCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Show what would run, and what is missing",
		Long:  doctorLong,
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := g.openProvisioner(cmd)
			if err != nil {
				return err
			}
			defer p.Close()
			report, err := p.Doctor(cmd.Context())
			if err != nil {
				return err
			}
			if !printReport(cmd.OutOrStdout(), report) {
				return errors.New("no harness can run: mend one of the above, or run `agent-server install`")
			}
			return nil
		},
	}
}

// printReport returns whether some harness can run.
func printReport(out io.Writer, r provision.Report) bool {
	usable := false
	for _, t := range r.Tools {
		usable = usable || t.Usable()
		printTool(out, t)
	}
	fmt.Fprintf(out, "platform  %s, --provision %s\n", r.Platform, r.Mode)
	if r.Mode == provision.System {
		return usable
	}
	fmt.Fprintf(out, "cache     %s\n", cacheLine(r.Cache))
	for _, e := range r.Cache.Entries {
		fmt.Fprintf(out, "          %s %s, %s, %s\n", e.Tool, e.Name, size(e.Bytes), cacheState(e))
	}
	fmt.Fprintf(out, "registry  %s\n", registryLine(r.Registry))
	return usable
}

func printTool(out io.Writer, t provision.ToolReport) {
	fmt.Fprintf(out, "%-9s %s\n", t.Tool, toolLine(t))
	fmt.Fprintf(out, "          harnesses: %s; pinned %s, oldest supported %s\n", strings.Join(harnessesOf[t.Tool], ", "), t.Pinned, t.MinVersion)
	if len(t.Credentials) == 0 {
		fmt.Fprintf(out, "          credentials: none found; log in with `%s`, or send an apiKey with each turn\n", t.Tool)
	} else {
		fmt.Fprintf(out, "          credentials: %s\n", strings.Join(t.Credentials, ", "))
	}
	for _, tried := range t.Tried {
		fmt.Fprintf(out, "          passed over: %s\n", strings.ReplaceAll(tried.String(), "\n", " "))
	}
}

func toolLine(t provision.ToolReport) string {
	switch {
	case t.Executable.Path != "":
		return "ready: " + t.Executable.String()
	case t.Downloadable:
		return "not installed: the first turn downloads " + t.Pinned + ", or `agent-server install` now"
	}
	return "cannot run: nothing is installed, and nothing can be downloaded"
}

func cacheLine(c provision.CacheReport) string {
	switch {
	case c.Err != nil:
		return c.Err.Error()
	case c.WriteErr != nil:
		return fmt.Sprintf("%s (nothing can be added: %v)", c.Root, c.WriteErr)
	case !c.Exists:
		return c.Root + " (not there yet)"
	}
	return c.Root
}

func registryLine(r provision.RegistryReport) string {
	if r.Address == "" {
		return fmt.Sprint(r.Err)
	}
	line := fmt.Sprintf("%s (from %s)", r.Address, r.Source)
	if r.Err != nil {
		return line + ": " + r.Err.Error()
	}
	return fmt.Sprintf("%s: has the pinned build, answered in %v", line, r.Took.Round(time.Millisecond))
}
