package acp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"agentserver/harness"
	"agentserver/protocol"
)

// CommandVariable names the environment variable that holds the command line of the default agent.
const CommandVariable = "AGENT_SERVER_ACP_AGENT"

// SplitCommand splits a command line into its program and arguments: at white space, with '…' and "…" around what belongs together, and a
// backslash before a character that is meant as it is (within "…" only before \ and "). It runs no shell: nothing is expanded.
func SplitCommand(line string) ([]string, error) {
	var (
		words  []string
		word   strings.Builder
		inWord bool
		quote  rune
		escape bool
	)
	for _, c := range line {
		switch {
		case escape:
			if quote == '"' && c != '"' && c != '\\' {
				word.WriteRune('\\')
			}
			word.WriteRune(c)
			escape = false
		case c == '\\' && quote != '\'':
			escape, inWord = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	switch {
	case escape:
		return nil, errors.New("the command line ends in a backslash: put the character that it stands before, or drop it")
	case quote != 0:
		return nil, fmt.Errorf("the command line has an open %c: close it", quote)
	}
	if inWord {
		words = append(words, word.String())
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("the command line names no program: write, for example, \"gemini --acp\"")
	}
	return words, nil
}

// FirstInstalled returns a resolver of the first command whose program is found, in PATH or as a path. hint (may be empty) says what to do when
// there is none.
func FirstInstalled(commands [][]string, hint string) harness.Resolver {
	return func(context.Context, func(harness.Notice)) (harness.Executable, error) {
		var tried []string
		for _, c := range commands {
			if len(c) == 0 {
				continue
			}
			if path, ok := lookPath(c[0]); ok {
				return harness.Executable{Path: path, Args: c[1:]}, nil
			}
			tried = append(tried, c[0])
		}
		message := "no ACP agent is configured: start the server with --acp-agent \"<command line>\", or set " + CommandVariable
		if len(tried) > 0 {
			message = "the ACP agent cannot be started: not found in PATH: " + strings.Join(tried, ", ") + "; install it, or give its path with --acp-agent"
		}
		if hint != "" {
			message += " (" + hint + ")"
		}
		return harness.Executable{}, &harness.Error{Category: protocol.CategoryInvalidRequest, Message: message}
	}
}

// lookPath finds a program as exec would. Programs in the current directory are not found by their bare name.
func lookPath(name string) (string, bool) {
	if strings.ContainsRune(name, filepath.Separator) {
		path, err := filepath.Abs(name)
		return path, err == nil && isProgram(path)
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if path := filepath.Join(dir, name); isProgram(path) {
			return path, true
		}
	}
	return "", false
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
