package main

import (
	"google.golang.org/protobuf/proto"
)

// The codec of the server: plain bytes for the orders, protobuf for the health checks.
type mixed struct{ raw }

func (m mixed) Marshal(v any) ([]byte, error) {
	if message, ok := v.(proto.Message); ok {
		return proto.Marshal(message)
	}
	return m.raw.Marshal(v)
}

func (m mixed) Unmarshal(data []byte, v any) error {
	if message, ok := v.(proto.Message); ok {
		return proto.Unmarshal(data, message)
	}
	return m.raw.Unmarshal(data, v)
}
