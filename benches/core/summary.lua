-- Prints wrk's own result as one JSON line; nothing of it runs during the load.
done = function(summary, latency, requests)
    local e = summary.errors
    io.write(string.format(
        'SUMMARY {"microseconds": %d, "requests": %d, "bytes": %d, "connect": %d, "read": %d, "write": %d, "status": %d, "timeout": %d}\n',
        summary.duration, summary.requests, summary.bytes, e.connect, e.read, e.write, e.status, e.timeout))
end
