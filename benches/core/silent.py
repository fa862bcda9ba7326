"""An origin that takes connections and never answers: `silent.py PORT`. Prints `ready`."""

import socket
import sys


def main():
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=4096)
    print("ready", flush=True)
    held = []
    while True:
        held.append(listener.accept())


if __name__ == "__main__":
    main()
