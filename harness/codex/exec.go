package codex

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"agentserver/harness"
	"agentserver/harness/internal/inbox"
	"agentserver/protocol"
)

// NewExec returns the harness that runs `codex exec` once a turn. It does no I/O.
func NewExec(opts Options) harness.Harness {
	return &execHarness{opts: opts.withDefaults()}
}

type execHarness struct {
	opts   Options
	memory memory
}

// ID implements [harness.Harness].
func (*execHarness) ID() protocol.HarnessID { return ExecID }

// Capabilities implements [harness.Harness].
func (*execHarness) Capabilities() protocol.Capabilities {
	return protocol.Capabilities{
		MultiTurn:      true,
		SessionResume:  true,
		ModelSwitch:    protocol.ModelSwitchInSession,
		ThinkingLevels: thinkingLevels,
		Images:         true,
		MCPServers:     true,
		Unsupported:    []string{"disableTools", "maxTurns", "resumeSessionAt"},
	}
}

// Open implements [harness.Harness]. Nothing is started before the first turn.
func (d *execHarness) Open(ctx context.Context, spec harness.Spec) (harness.Session, error) {
	exe, err := resolve(ctx, &d.opts, spec)
	if err != nil {
		return nil, err
	}
	log := spec.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &execSession{d: d, exe: exe, log: log, spec: spec, native: spec.Resume, inbox: inbox.New()}, nil
}

// execArguments are the arguments of one run. resume is the thread to go on with; "" starts one. Nothing secret is in them.
func execArguments(opts *Options, spec harness.Spec, resume string, images []string) []string {
	c := &spec.Config
	args := []string{"exec", "--json", "--skip-git-repo-check", "--sandbox", policyOf(c).sandbox, "--cd", c.Cwd}
	args = append(args, keptFromCommands...)
	if c.Model != "" {
		args = append(args, "--model", c.Model)
	}
	if level := effort(c.ThinkingLevel); level != "" {
		args = append(args, "-c", "model_reasoning_effort="+tomlString(level))
	}
	if c.SystemPromptAppend != "" {
		args = append(args, "-c", "developer_instructions="+tomlString(c.SystemPromptAppend))
	}
	for _, dir := range c.AdditionalDirectories {
		args = append(args, "--add-dir", dir)
	}
	args = append(args, execServersOf(c).args...)
	args = append(args, opts.Args...)
	if resume != "" {
		args = append(args, "resume", resume)
	}
	for _, image := range images {
		args = append(args, "--image", image)
	}
	return args
}

// tomlString quotes a value for -c: TOML takes JSON's escapes.
func tomlString(s string) string { return strings.ReplaceAll(string(encode(s)), "\x7f", `\u007f`) }

// execEnvironment adds the key of the config, under the name that codex or the operator's provider reads.
func execEnvironment(opts *Options, spec harness.Spec, exe harness.Executable) []string {
	extra := execServersOf(&spec.Config).env
	if key := spec.Config.APIKey; key != "" {
		extra["CODEX_API_KEY"] = key
		if opts.KeyVariable != "" {
			extra[opts.KeyVariable] = key
		}
	}
	return environment(opts, spec, exe, extra)
}

// execInput splits a turn's input into the prompt and the images.
func execInput(in protocol.Input) (prompt string, images []protocol.InputItem, err error) {
	if _, err := userInput(in); err != nil {
		return "", nil, err
	}
	var texts []string
	for _, item := range in {
		if item.Type == protocol.PartText {
			texts = append(texts, item.Text)
		} else {
			images = append(images, item)
		}
	}
	prompt = strings.Join(texts, "\n\n")
	if strings.TrimSpace(prompt) == "" {
		return "", nil, badInput("codex needs a text beside the images: add one")
	}
	return prompt, slices.Clip(images), nil
}
