package protocol

// Capabilities says what a harness delivers; nothing is advertised that is not delivered. The zero value delivers single turns of text.
type Capabilities struct {
	// MultiTurn: several turns of one session share their context.
	MultiTurn bool `json:"multiTurn"`
	// SessionResume: [RunConfig.ResumeSessionID] works.
	SessionResume bool        `json:"sessionResume"`
	ModelSwitch   ModelSwitch `json:"modelSwitch"`
	// ThinkingLevels that are told apart; empty when the harness has no such setting.
	ThinkingLevels []ThinkingLevel `json:"thinkingLevels"`
	Images         bool            `json:"images"`
	MCPServers     bool            `json:"mcpServers"`
	// PermissionRequests: the harness asks before it acts.
	PermissionRequests bool `json:"permissionRequests"`
	// Steering: `turn/steer` works.
	Steering bool `json:"steering"`
	// Cost: turn.ended carries a cost.
	Cost bool `json:"cost"`
	// Files: input items of type file work.
	Files bool `json:"files"`
	// ImageURLs: images and files may be given by url.
	ImageURLs bool `json:"imageUrls,omitempty"`
	// Unsupported lists the fields of [RunConfig], by their wire names, that the harness cannot honour. A turn that uses one carries a
	// recoverable error event that names it.
	Unsupported []string `json:"unsupported,omitempty"`
}

// MarshalJSON writes an empty list of thinking levels as [].
func (c Capabilities) MarshalJSON() ([]byte, error) {
	type plain Capabilities
	if c.ThinkingLevels == nil {
		c.ThinkingLevels = []ThinkingLevel{}
	}
	return marshal(plain(c))
}
