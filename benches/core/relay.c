/* A relay that parses nothing: for each client connection one to the origin, and every byte is passed on.
   It does what no proxy can do without: it shows the kernel's part of the cost of a proxied request.
   relay PORT ORIGIN_PORT SPIN_US; with SPIN_US it looks for events for that long before it sleeps.
   Only for benches/floor.py: no limits, no end of one side alone, one thread. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define MOST 65536

static int other[MOST], events_fd;

static void watch(int fd) {
    int on = 1;
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.fd = fd};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    epoll_ctl(events_fd, EPOLL_CTL_ADD, fd, &event);
}

static struct sockaddr_in loopback(int port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void join(int listener, int origin_port) {
    struct sockaddr_in origin = loopback(origin_port);
    int client = accept4(listener, 0, 0, SOCK_NONBLOCK);
    int server = socket(AF_INET, SOCK_STREAM, 0);
    if (client < 0 || server < 0 || client >= MOST || server >= MOST ||
        connect(server, (struct sockaddr *)&origin, sizeof origin)) {
        close(client);
        close(server);
        return;
    }
    other[client] = server;
    other[server] = client;
    watch(client);
    watch(server);
}

static void part(int fd) {
    int peer = other[fd];
    other[fd] = other[peer] = 0;
    close(fd);
    close(peer);
}

static void pass_on(int fd) {
    static char bytes[16384];
    ssize_t length = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (length <= 0 || send(other[fd], bytes, length, MSG_NOSIGNAL) != length) part(fd);
}

static long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

static int wait_for(struct epoll_event *events, int most, long spin_us) {
    if (spin_us > 0) {
        long end = now_us() + spin_us;
        do {
            int count = epoll_wait(events_fd, events, most, 0);
            if (count) return count;
        } while (now_us() < end);
    }
    return epoll_wait(events_fd, events, most, -1);
}

int main(int count, char **words) {
    if (count != 4) return fputs("relay PORT ORIGIN_PORT SPIN_US\n", stderr), 2;
    static struct epoll_event events[1024];
    int on = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in own = loopback(atoi(words[1]));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&own, sizeof own) || listen(listener, 1024)) return perror("relay"), 1;
    events_fd = epoll_create1(0);
    struct epoll_event accepts = {.events = EPOLLIN, .data.fd = listener};
    epoll_ctl(events_fd, EPOLL_CTL_ADD, listener, &accepts);
    for (;;) {
        int ready = wait_for(events, 1024, atol(words[3]));
        for (int at = 0; at < ready; at++) {
            int fd = events[at].data.fd;
            if (fd == listener) join(listener, atoi(words[2]));
            else if (other[fd]) pass_on(fd);
        }
    }
}
