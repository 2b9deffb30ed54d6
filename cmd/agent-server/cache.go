package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"agentserver/provision"
)

func newCacheCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Show or clear the downloaded CLIs",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCacheListCmd(g), newCachePruneCmd(g))
	return cmd
}

func newCacheListCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the downloaded versions, their sizes, and what is pinned",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := g.openProvisioner(cmd)
			if err != nil {
				return err
			}
			defer p.Close()
			list, err := p.CacheList()
			if err != nil {
				return err
			}
			return printCache(cmd.OutOrStdout(), p.CacheRoot(), list)
		},
	}
}

func printCache(out io.Writer, root string, list []provision.CacheEntry) error {
	fmt.Fprintf(out, "%s\n", root)
	if len(list) == 0 {
		fmt.Fprintln(out, "  empty: agent-server install fills it")
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, e := range list {
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", e.Tool, e.Name, size(e.Bytes), cacheState(e))
	}
	return table.Flush()
}

func cacheState(e provision.CacheEntry) string {
	switch {
	case e.Damage != nil:
		return fmt.Sprintf("damaged: %v", e.Damage)
	case e.Pinned:
		return "pinned"
	}
	return "not pinned: prune removes it"
}

func newCachePruneCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "prune",
		Short: "Remove the versions that are not pinned",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := g.openProvisioner(cmd)
			if err != nil {
				return err
			}
			defer p.Close()
			removed, err := p.Prune(cmd.Context())
			var freed int64
			for _, e := range removed {
				freed += e.Bytes
				fmt.Fprintf(cmd.OutOrStdout(), "removed %s %s (%s)\n", e.Tool, e.Name, size(e.Bytes))
			}
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%d removed, %s freed\n", len(removed), size(freed))
			}
			return err
		},
	}
}
