package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"agentserver/docs/schema"
	"agentserver/protocol"
	"agentserver/provision"
)

func newVersionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version, the protocol and the pinned CLIs",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "agent-server %s", version)
			if commit != "" {
				fmt.Fprintf(out, " (%s)", commit)
			}
			fmt.Fprintf(out, "\nprotocol %d\n%s %s/%s\n", protocol.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			pins := provision.DefaultPins()
			for _, tool := range provision.Tools() {
				fmt.Fprintf(out, "%s %s (pinned)\n", tool, pins.Version(tool))
			}
			return nil
		},
	}
}

func newSchemaCmd() *cobra.Command {
	var ts bool
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the wire",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text := schema.JSON
			if ts {
				text = schema.TypeScript
			}
			_, err := cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.Flags().BoolVar(&ts, "typescript", false, "print TypeScript types instead")
	return cmd
}
