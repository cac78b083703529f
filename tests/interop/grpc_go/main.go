// A gRPC service and its client by google.golang.org/grpc, as grpc_calls.py: messages are plain
// bytes, and the methods and the kinds of calls are the same.
//
//	grpc_go serve [CERT KEY]  serves shop.v1.Orders and grpc.health.v1; prints "port N"
//	grpc_go call PORT KIND    makes calls through a gateway; prints "done"
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	service = "shop.v1.Orders"
	large   = 3 << 20
	// Of every call that is expected to end.
	patience = 30 * time.Second
)

// Messages are the bytes that they are.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error { *v.(*[]byte) = bytes.Clone(data); return nil }
func (raw) Name() string                       { return "proto" }

var (
	cancelled = make(chan struct{})
	once      sync.Once
	begun     atomic.Bool
)

func noteCancelled(ctx context.Context) error {
	select {
	case <-ctx.Done():
		once.Do(func() { close(cancelled) })
		return ctx.Err()
	case <-time.After(patience):
		return nil
	}
}

// Responds with the request, or as it says.
func get(stream grpc.ServerStream, request []byte) ([]byte, error) {
	switch string(request) {
	case "fail":
		stream.SetTrailer(metadata.Pairs("x-reason", "asked", "x-bytes-bin", "\x00\xff"))
		return nil, status.Error(codes.FailedPrecondition, "zwölf % nicht")
	case "was it cancelled?":
		select {
		case <-cancelled:
			return []byte("yes"), nil
		case <-time.After(patience):
			return []byte("no"), nil
		}
	case "remaining":
		deadline, _ := stream.Context().Deadline()
		return strconv.AppendInt(nil, time.Until(deadline).Milliseconds(), 10), nil
	case "has it begun?":
		return strconv.AppendBool(nil, begun.Load()), nil
	case "wait":
		begun.Store(true)
		return nil, noteCancelled(stream.Context())
	}
	stream.SetTrailer(metadata.Pairs("x-length", strconv.Itoa(len(request))))
	return request, nil
}

// A stream of ten messages; "forever" lasts until it is cancelled.
func watch(stream grpc.ServerStream, request []byte) error {
	for number := range 10 {
		message := fmt.Appendf(nil, "%s %d", request, number)
		if err := stream.SendMsg(&message); err != nil {
			return err
		}
	}
	switch string(request) {
	case "forever":
		return noteCancelled(stream.Context())
	case "fail":
		return status.Error(codes.DataLoss, "after ten")
	}
	return nil
}

func serveOrders(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	sum := 0
	for {
		var request []byte
		err := stream.RecvMsg(&request)
		if err == io.EOF && method == "/"+service+"/Import" {
			total := strconv.AppendInt(nil, int64(sum), 10)
			return stream.SendMsg(&total)
		} else if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		switch method {
		case "/" + service + "/Get":
			response, err := get(stream, request)
			if err != nil {
				return err
			}
			return stream.SendMsg(&response)
		case "/" + service + "/Watch":
			return watch(stream, request)
		case "/" + service + "/Import":
			sum += len(request)
		case "/" + service + "/Chat":
			if err := stream.SendMsg(&request); err != nil {
				return err
			}
		default:
			return status.Error(codes.Unimplemented, method)
		}
	}
}

func serve(files []string) error {
	options := []grpc.ServerOption{
		grpc.UnknownServiceHandler(serveOrders), grpc.MaxRecvMsgSize(8 << 20),
		// Of all methods but those of grpc.health.v1, whose messages are protobuf.
		grpc.ForceServerCodec(mixed{}),
	}
	if len(files) == 2 {
		secured, err := credentials.NewServerTLSFromFile(files[0], files[1])
		if err != nil {
			return err
		}
		options = append(options, grpc.Creds(secured))
	}
	server := grpc.NewServer(options...)
	checks := health.NewServer()
	checks.SetServingStatus(service, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, checks)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "port", listener.Addr().(*net.TCPAddr).Port)
	return server.Serve(listener)
}

type calls struct{ connection *grpc.ClientConn }

func (c calls) unary(message []byte, timeout time.Duration, options ...grpc.CallOption) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var response []byte
	err := c.connection.Invoke(ctx, "/"+service+"/Get", &message, &response, options...)
	return response, err
}

func (c calls) stream(ctx context.Context, method string) (grpc.ClientStream, error) {
	both := grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	return c.connection.NewStream(ctx, &both, "/"+service+"/"+method)
}

func expect(actual, expected any, what string) {
	if a, e := fmt.Sprint(actual), fmt.Sprint(expected); a != e {
		panic(fmt.Sprintf("%s: %.100s, expected %.100s", what, a, e))
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Sends all messages of a stream and returns all of its responses, and how it ended.
func (c calls) exchange(method string, messages ...[]byte) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream := must(c.stream(ctx, method))
	for _, message := range messages {
		if err := stream.SendMsg(&message); err != nil {
			break
		}
	}
	_ = stream.CloseSend()
	var responses []string
	for {
		var response []byte
		if err := stream.RecvMsg(&response); err == io.EOF {
			return responses, nil
		} else if err != nil {
			return responses, err
		}
		responses = append(responses, string(response))
	}
}

func (c calls) kinds() {
	var trailer metadata.MD
	response := must(c.unary([]byte("one"), patience, grpc.Trailer(&trailer)))
	expect(string(response), "one", "unary")
	expect(trailer.Get("x-length"), []string{"3"}, "trailing metadata")
	watched := must(c.exchange("Watch", []byte("w")))
	expect(len(watched), 10, "server streaming")
	total := must(c.exchange("Import", bytes.Repeat([]byte("x"), 1000), []byte("yy")))
	expect(total, []string{"1002"}, "client streaming")
	// Sends each message after the response to the one before has arrived.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	chat := must(c.stream(ctx, "Chat"))
	for number := range 5 {
		message := strconv.AppendInt(nil, int64(number), 10)
		var response []byte
		must(0, chat.SendMsg(&message))
		must(0, chat.RecvMsg(&response))
		expect(string(response), number, "bidirectional streaming")
	}
	must(0, chat.CloseSend())
	expect(chat.RecvMsg(new([]byte)), io.EOF, "the end of a conversation")
}

func (c calls) large() {
	message := make([]byte, large)
	response := must(c.unary(message, patience))
	expect(bytes.Equal(response, message), true, "a large message")
	// Compressed messages pass unchanged.
	response = must(c.unary(message, patience, grpc.UseCompressor(gzip.Name)))
	expect(bytes.Equal(response, message), true, "a compressed message")
}

func (c calls) errors() {
	var trailer metadata.MD
	_, err := c.unary([]byte("fail"), patience, grpc.Trailer(&trailer))
	expect(status.Code(err), codes.FailedPrecondition, "a failed call")
	expect(status.Convert(err).Message(), "zwölf % nicht", "details")
	expect(trailer.Get("x-reason"), []string{"asked"}, "metadata of an error")
	expect(trailer.Get("x-bytes-bin"), []string{"\x00\xff"}, "binary metadata")
	messages, err := c.exchange("Watch", []byte("fail"))
	expect(status.Code(err), codes.DataLoss, "a failed stream")
	expect(len(messages), 10, "messages before the failure")
	_, err = c.exchange("None", nil)
	expect(status.Code(err), codes.Unimplemented, "unknown")
}

func (c calls) cancellation() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	stream := must(c.stream(ctx, "Watch"))
	message := []byte("forever")
	must(0, stream.SendMsg(&message))
	must(0, stream.CloseSend())
	for range 10 {
		must(0, stream.RecvMsg(new([]byte)))
	}
	cancel()
	expect(string(must(c.unary([]byte("was it cancelled?"), patience))), "yes", "cancellation")
}

func (c calls) deadline() {
	left := must(strconv.Atoi(string(must(c.unary([]byte("remaining"), 20*time.Second)))))
	expect(left > 0 && left <= 20_000, true, "the time that the server was given")
	// A short deadline may be over before the server has begun.
	for limit, has := time.Second, "false"; has == "false"; limit *= 2 {
		_, err := c.unary([]byte("wait"), limit)
		expect(status.Code(err), codes.DeadlineExceeded, "a deadline")
		has = string(must(c.unary([]byte("has it begun?"), patience)))
	}
	answer := must(c.unary([]byte("was it cancelled?"), patience))
	expect(string(answer), "yes", "after a deadline")
}

func call(port, kind string) error {
	connection, err := grpc.NewClient("127.0.0.1:"+port,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{}), grpc.MaxCallRecvMsgSize(8<<20)))
	if err != nil {
		return err
	}
	defer connection.Close()
	c := calls{connection}
	kinds := map[string]func(){
		"kinds": c.kinds, "large": c.large, "errors": c.errors,
		"cancellation": c.cancellation, "deadline": c.deadline,
	}
	kinds[kind]()
	fmt.Println("done")
	return nil
}

func main() {
	var err error
	if os.Args[1] == "serve" {
		err = serve(os.Args[2:])
	} else {
		err = call(os.Args[2], os.Args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
