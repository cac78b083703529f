/* An echo over TLS with OpenSSL and epoll, on one thread: the server that a Lua program is compared
 * with, and the client that loads both.
 *
 *   tls_echo server CERTIFICATE KEY                 prints the port it listens on
 *   tls_echo client PORT CONNECTIONS BYTES SECONDS  prints how many messages came back
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 256, PIECE = 16384 };

struct peer {
  SSL *tls;
  int fd;
  /* Of the client: bytes of the current message that have come back. */
  int received;
};

static char piece[PIECE];

static void die(const char *what) {
  perror(what);
  ERR_print_errors_fp(stderr);
  exit(1);
}

static struct sockaddr_in loopback(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

static struct peer *watch(int epoll, int fd, SSL_CTX *context) {
  int one = 1;
  struct peer *peer = calloc(1, sizeof *peer);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  peer->fd = fd;
  peer->tls = SSL_new(context);
  SSL_set_fd(peer->tls, fd);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
    die("epoll_ctl");
  return peer;
}

static void drop(struct peer *peer) {
  SSL_free(peer->tls);
  close(peer->fd);
  free(peer);
}

/* Messages are far smaller than a socket's buffer: a write that does not fit is an error. */
static int put(struct peer *peer, const char *bytes, int count) {
  return SSL_write(peer->tls, bytes, count) == count;
}

/* Returns 0 once the connection is over. */
static int echo(struct peer *peer) {
  for (;;) {
    int count = SSL_read(peer->tls, piece, PIECE);
    if (count <= 0)
      return SSL_get_error(peer->tls, count) == SSL_ERROR_WANT_READ;
    if (!put(peer, piece, count))
      return 0;
  }
}

static void serve(const char *certificate, const char *key) {
  SSL_CTX *context = SSL_CTX_new(TLS_server_method());
  if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1 ||
      SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
    die("certificate");
  int listener = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0);
  struct sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (bind(listener, (void *)&address, size) || listen(listener, 1024))
    die("listen");
  getsockname(listener, (void *)&address, &size);
  printf("listens on 127.0.0.1:%d\n", ntohs(address.sin_port));
  fflush(stdout);
  struct epoll_event event = {.events = EPOLLIN}, events[EVENTS];
  epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
  for (;;) {
    int count = epoll_wait(epoll, events, EVENTS, -1);
    for (int at = 0; at < count; at++) {
      struct peer *peer = events[at].data.ptr;
      if (!peer) {
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0)
          SSL_set_accept_state(watch(epoll, fd, context)->tls);
      } else if (!echo(peer)) {
        drop(peer);
      }
    }
  }
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static void load(int port, int connections, int bytes, double seconds) {
  SSL_CTX *context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256");
  SSL_CTX_set1_groups_list(context, "X25519");
  int epoll = epoll_create1(0);
  struct sockaddr_in address = loopback(port);
  char *message = malloc(bytes);
  memset(message, 'x', bytes);
  for (int at = 0; at < connections; at++) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (void *)&address, sizeof address))
      die("connect");
    /* The handshake is made while the socket blocks. */
    SSL *tls = SSL_new(context);
    SSL_set_fd(tls, fd);
    if (SSL_connect(tls) != 1)
      die("handshake");
    struct peer *peer = watch(epoll, fd, context);
    SSL_free(peer->tls);
    peer->tls = tls;
    if (!put(peer, message, bytes))
      die("write");
  }
  struct epoll_event events[EVENTS];
  long messages = 0;
  for (double end = now() + seconds; now() < end;) {
    int count = epoll_wait(epoll, events, EVENTS, 1000);
    for (int at = 0; at < count; at++) {
      struct peer *peer = events[at].data.ptr;
      int got = SSL_read(peer->tls, piece, PIECE);
      if (got <= 0) {
        if (SSL_get_error(peer->tls, got) != SSL_ERROR_WANT_READ)
          die("read");
        continue;
      }
      peer->received += got;
      if (peer->received == bytes) {
        peer->received = 0;
        messages++;
        if (!put(peer, message, bytes))
          die("write");
      }
    }
  }
  printf("%ld\n", messages);
}

int main(int count, char **words) {
  signal(SIGPIPE, SIG_IGN);
  if (count == 4 && !strcmp(words[1], "server"))
    serve(words[2], words[3]);
  if (count != 6 || strcmp(words[1], "client"))
    return 2;
  load(atoi(words[2]), atoi(words[3]), atoi(words[4]), atof(words[5]));
  return 0;
}
