package codex

import (
	"context"
	"encoding/json"
	"errors"

	"agentserver/harness"
	"agentserver/protocol"
	"agentserver/protocol/jsonscan"
)

// A provider is the model provider that a thread is told to use; the zero value leaves it to codex's own settings.
type provider struct {
	id       string
	settings object
}

// ownProvider is the id under which the built-in provider is described again when a key is given: codex lets nobody change its own.
const ownProvider = "agent_server_openai"

// provider returns the provider that carries config.apiKey. The key goes to codex over its stdin, as the thread's setting: so it is in no argv, no
// environment and no file. It outweighs what the user has logged in with.
func (s *session) provider(ctx context.Context) (provider, error) {
	key := s.spec.Config.APIKey
	if key == "" {
		return provider{}, nil
	}
	raw, err := s.call(ctx, "config/read", object{"includeLayers": false, "cwd": s.spec.Config.Cwd})
	if err != nil {
		if e, ok := errors.AsType[*callError](err); ok {
			return provider{}, &harness.Error{Category: protocol.CategoryInvalidRequest, Err: err, Message: "codex could not tell its model provider, to which config.apiKey belongs: " + e.Message}
		}
		return provider{}, s.callFailed("config/read", err)
	}
	return providerWith(jsonscan.Get(raw, "config"), key), nil
}

// providerWith adds a key to the provider of a config.
func providerWith(config []byte, key string) provider {
	id := jsonscan.String(jsonscan.Get(config, "model_provider"))
	settings := object{}
	if known := jsonscan.Get(jsonscan.Get(config, "model_providers"), id); id != "" && id != "openai" && known != nil {
		_ = json.Unmarshal(known, &settings) // an object, for codex has read it
		for name, value := range settings {
			if value == nil {
				delete(settings, name)
			}
		}
		delete(settings, "env_key")
		delete(settings, "env_key_instructions")
		delete(settings, "auth")
	} else {
		id = ownProvider
		settings["name"] = "OpenAI"
		settings["base_url"] = "https://api.openai.com/v1"
		settings["wire_api"] = "responses"
		if url := jsonscan.String(jsonscan.Get(config, "openai_base_url")); url != "" {
			settings["base_url"] = url
		}
	}
	settings["requires_openai_auth"] = false
	settings["experimental_bearer_token"] = key
	return provider{id: id, settings: settings}
}
