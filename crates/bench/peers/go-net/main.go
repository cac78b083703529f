// A canned answer from Go's net package: a goroutine for each connection, as its users write it.
//
// Usage: peer hello|ping ADDRESS. One answer for each end of a request: the blank line of an
// HTTP head, or the PING of RESP, inline or as a bulk string.
package main

import (
	"bytes"
	"log"
	"net"
	"os"
)

const hello = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 4\r\n\r\npong"

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: peer hello|ping ADDRESS")
	}
	end, answer := []byte("\r\n\r\n"), []byte(hello)
	if os.Args[1] == "ping" {
		end, answer = []byte("PING\r\n"), []byte("+PONG\r\n")
	}
	listener, err := net.Listen("tcp", os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go serve(connection, end, answer)
	}
}

func serve(connection net.Conn, end, answer []byte) {
	defer connection.Close()
	buffer := make([]byte, 16*1024)
	answers := []byte{}
	kept := 0
	for {
		count, err := connection.Read(buffer[kept:])
		if err != nil {
			return
		}
		rest := buffer[:kept+count]
		answers = answers[:0]
		for at := bytes.Index(rest, end); at >= 0; at = bytes.Index(rest, end) {
			answers = append(answers, answer...)
			rest = rest[at+len(end):]
		}
		if _, err := connection.Write(answers); err != nil {
			return
		}
		// An end may be split over two reads.
		if len(rest) >= len(end) {
			rest = rest[len(rest)-len(end)+1:]
		}
		kept = copy(buffer, rest)
	}
}
