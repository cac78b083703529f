// An HTTP/2 server of Go's net/http: over TLS by ALPN, and in the clear.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
)

// Requests at once on a connection.
const streams = 5

type gate struct {
	arrived atomic.Int32
	open    chan struct{}
}

// For each listener one: in the clear, and with TLS.
var gates = map[bool]*gate{false: {open: make(chan struct{})}, true: {open: make(chan struct{})}}

func handle(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/echo":
		w.Header().Set("Trailer", "X-Count")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		count, _ := io.Copy(w, r.Body)
		w.Header().Set("X-Count", fmt.Sprint(count))
	case "/chat":
		connection, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer connection.Close()
		fmt.Fprint(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n",
			"Upgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n")
		line, _ := buffered.ReadString('\n')
		fmt.Fprint(connection, r.Proto, " ", line)
	case "/slow":
		// The first ones wait until there is one more than a connection takes.
		own := gates[r.TLS != nil]
		if own.arrived.Add(1) == streams+1 {
			close(own.open)
		}
		<-own.open
		fmt.Fprint(w, "slow")
	default:
		fmt.Fprintf(w, "%s %s %s", r.Proto, r.Host, r.URL)
	}
}

func main() {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler:   http.HandlerFunc(handle),
		Protocols: protocols,
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: streams},
	}
	for _, secure := range []bool{false, true} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stderr, "listening", secure, listener.Addr().(*net.TCPAddr).Port)
		if secure {
			panic(server.ServeTLS(listener, "server.pem", "server.key"))
		}
		go server.Serve(listener)
	}
}
