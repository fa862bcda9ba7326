// Charts of the last minutes, drawn by hand on canvases. They know points and nothing of the page around them.
"use strict";

const Charts = (() => {
  const MOST_MS = 5 * 60_000;
  const LEAST_MS = 60_000;
  const points = [];

  const time = us => us === null || us === undefined ? "–"
    : us < 1e3 ? `${Math.round(us)} µs` : us < 999.5e3 ? `${digits(us / 1e3)} ms` : `${digits(us / 1e6)} s`;
  const digits = number => number < 9.995 ? number.toFixed(2) : number < 99.95 ? number.toFixed(1) : number.toFixed(0);
  const number = value => value === null || value === undefined ? "–"
    : value >= 1e6 ? `${digits(value / 1e6)}M` : value >= 1e4 ? `${digits(value / 1e3)}k`
    : value < 9.95 && value % 1 ? value.toFixed(1) : String(Math.round(value));
  const share = value => `${(value * 100).toFixed(1)} %`;

  // What each kind of chart shows of a pool: its series, their colour and form, and how they are said.
  const KINDS = {
    latency: {
      say: time, scale: "log", series: [
        { name: "p50", ink: "a", of: pool => pool.p50_us },
        { name: "p99", ink: "b", dash: [6, 3], form: "dashed", of: pool => pool.p99_us },
        { name: "p99.9", ink: "c", dash: [2, 2], form: "dotted", of: pool => pool.p999_us },
      ],
    },
    parts: {
      say: time, stacked: true, series: ["head", "queue", "connect", "server", "body"].map((name, index) => (
        { name, ink: "bcead"[index], form: "band", of: pool => pool.parts_us[index] }
      )),
    },
    queue: {
      say: number, series: [
        { name: "in flight", ink: "a", of: pool => pool.in_flight },
        { name: "waiting", ink: "c", dash: [6, 3], form: "dashed", of: pool => pool.queued },
      ],
    },
    rate: {
      say: number, series: [
        { name: "requests/s", ink: "a", of: pool => pool.per_second },
        { name: "5xx/s", ink: "c", dash: [6, 3], form: "dashed", of: pool => pool.failed },
      ],
    },
  };

  function take(point) {
    points.push(point);
    while (points[0].at_ms < point.at_ms - MOST_MS) points.shift();
  }

  function begin(all) {
    points.splice(0, points.length, ...all);
    draw();
  }

  function draw() {
    for (const figure of document.querySelectorAll("figure[data-chart]")) {
      if (figure.offsetParent !== null) drawOne(figure);
    }
  }

  // The canvas and the legend of a figure, made when first drawn.
  function parts(figure, kind) {
    let canvas = figure.querySelector("canvas");
    if (canvas) return [canvas, figure.querySelector(".legend")];
    canvas = document.createElement("canvas");
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    const legend = document.createElement("ul");
    legend.className = "legend";
    for (const series of kind ? kind.series : []) {
      const item = document.createElement("li");
      const mark = document.createElement("i");
      mark.className = `ink-${series.ink} ${series.form || ""}`;
      item.append(mark, `${series.name} `, document.createElement("b"));
      legend.append(item);
    }
    figure.append(canvas, legend);
    const look = at => { canvas.at = at; drawOne(figure); };
    const reach = event => {
      const box = canvas.getBoundingClientRect();
      const frame = canvas.frame;
      if (frame) look(frame.now - frame.span * (1 - (event.clientX - box.left - frame.left) / frame.width));
    };
    canvas.addEventListener("pointermove", reach);
    canvas.addEventListener("pointerdown", reach);
    canvas.addEventListener("pointerleave", () => look(null));
    canvas.addEventListener("blur", () => look(null));
    canvas.addEventListener("keydown", event => {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30 }[event.key];
      if (event.key === "Escape") look(null);
      if (!step || !points.length) return;
      event.preventDefault();
      const here = nearest(canvas.at ?? points.at(-1).at_ms);
      look(points[Math.min(Math.max(here + step, 0), points.length - 1)].at_ms);
    });
    return [canvas, legend];
  }

  function nearest(at) {
    let best = 0;
    points.forEach((point, index) => {
      if (Math.abs(point.at_ms - at) < Math.abs(points[best].at_ms - at)) best = index;
    });
    return best;
  }

  function drawOne(figure) {
    const name = figure.dataset.chart;
    const kind = KINDS[name];
    const [canvas, legend] = parts(figure, kind);
    const pen = fitted(canvas);
    const colours = getComputedStyle(document.documentElement);
    const ink = letter => colours.getPropertyValue(`--${letter}`).trim();
    pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    if (!points.length) return;
    const frame = {
      left: 46, top: 6, width: canvas.clientWidth - 52, height: canvas.clientHeight - 24, now: points.at(-1).at_ms,
      // As much as there is, so that what just began is not a stroke at the edge.
      span: Math.min(Math.max(points.at(-1).at_ms - points[0].at_ms, LEAST_MS), MOST_MS), ink, pen,
    };
    canvas.frame = frame;
    const caption = figure.querySelector("figcaption");
    caption.dataset.title ??= caption.textContent;
    const shown = canvas.at ? points[nearest(canvas.at)] : points.at(-1);
    const ago = Math.round((frame.now - shown.at_ms) / 1000);
    caption.textContent = caption.dataset.title + (canvas.at ? ` – ${ago} s ago` : "");
    if (kind) {
      const pool = figure.dataset.pool;
      lines(frame, kind, point => point.pools[pool]);
      const said = kind.series.map((series, index) => {
        const value = shown.pools[pool] ? kind.say(series.of(shown.pools[pool])) : "–";
        legend.children[index].querySelector("b").textContent = value;
        return `${series.name} ${value}`;
      });
      canvas.setAttribute("aria-label", `${caption.textContent}: ${said.join(", ")}`);
    } else {
      workers(frame, legend, shown);
      canvas.setAttribute("aria-label", `${caption.textContent}: ${legend.textContent}`);
    }
    if (canvas.at) {
      const x = across(frame, shown.at_ms);
      pen.strokeStyle = ink("faint");
      pen.setLineDash([]);
      pen.beginPath();
      pen.moveTo(x, frame.top);
      pen.lineTo(x, frame.top + frame.height);
      pen.stroke();
    }
  }

  function fitted(canvas) {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    pen.lineWidth = 1.6;
    return pen;
  }

  const across = (frame, at) => frame.left + frame.width * (1 - (frame.now - at) / frame.span);

  function minutes(frame) {
    const { pen } = frame;
    pen.fillStyle = frame.ink("faint");
    pen.textAlign = "center";
    const step = frame.span > 150_000 ? 60_000 : frame.span > 75_000 ? 30_000 : 15_000;
    for (let back = step; back < frame.span * 0.95; back += step) {
      const text = step < 60_000 ? `−${back / 1000} s` : `−${back / 60_000} min`;
      pen.fillText(text, across(frame, frame.now - back), frame.top + frame.height + 14);
    }
  }

  function lines(frame, kind, poolOf) {
    const series = kind.series.map(one => points.map(point => {
      const pool = poolOf(point);
      const value = pool ? one.of(pool) : null;
      return value === undefined ? null : value;
    }));
    if (kind.stacked) {
      for (let index = 1; index < series.length; index += 1) {
        series[index] = series[index].map((value, at) => value === null ? null : value + series[index - 1][at]);
      }
    }
    const values = series.flat().filter(value => value !== null);
    const up = kind.scale === "log" ? logarithmic(values) : linear(values);
    grid(frame, up, kind.say);
    minutes(frame);
    const y = value => frame.top + frame.height * (1 - up.place(value));
    kind.series.forEach((one, back) => {
      // Bands from the highest down, so that each leaves those below to be seen.
      const index = kind.stacked ? series.length - 1 - back : back;
      trace(frame, kind.series[index], series[index], { y, filled: kind.stacked });
    });
  }

  function trace(frame, one, values, { y, filled }) {
    const { pen } = frame;
    pen.strokeStyle = pen.fillStyle = frame.ink(one.ink);
    pen.setLineDash(one.dash || []);
    let run = [];
    const end = () => {
      if (!run.length) return;
      pen.beginPath();
      run.forEach(([x, height], index) => index ? pen.lineTo(x, height) : pen.moveTo(x, height));
      if (filled) {
        pen.lineTo(run.at(-1)[0], frame.top + frame.height);
        pen.lineTo(run[0][0], frame.top + frame.height);
        pen.fill();
      } else if (run.length === 1) {
        pen.fillRect(run[0][0] - 1, run[0][1] - 1, 2, 2);
      } else {
        pen.stroke();
      }
      run = [];
    };
    values.forEach((value, index) => {
      if (value === null) return end();
      run.push([Math.max(across(frame, points[index].at_ms), frame.left), y(value)]);
    });
    end();
    pen.setLineDash([]);
  }

  function linear(values) {
    const most = Math.max(1, ...values);
    const rough = most / 3;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max([1, 2, 5, 10].map(one => one * power).find(one => one >= rough), most <= 3 ? 1 : 0);
    const top = Math.ceil(most / step) * step;
    const ticks = [];
    for (let tick = 0; tick <= top + step / 2; tick += step) ticks.push(tick);
    return { ticks, place: value => value / top };
  }

  function logarithmic(values) {
    const some = values.filter(value => value > 0);
    const low = Math.floor(Math.log10(Math.min(...some, 1e9)));
    const high = Math.ceil(Math.log10(Math.max(...some, 1) * 1.0001));
    const [bottom, top] = some.length ? [low, Math.max(high, low + 1)] : [2, 5];
    const ticks = [];
    for (let power = bottom; power <= top; power += 1) ticks.push(10 ** power);
    return { ticks, place: value => Math.max((Math.log10(Math.max(value, 1)) - bottom) / (top - bottom), 0) };
  }

  function grid(frame, up, say) {
    const { pen } = frame;
    pen.strokeStyle = frame.ink("grid");
    pen.fillStyle = frame.ink("faint");
    pen.textAlign = "right";
    pen.setLineDash([]);
    for (const tick of up.ticks) {
      const y = frame.top + frame.height * (1 - up.place(tick));
      pen.beginPath();
      pen.moveTo(frame.left, y);
      pen.lineTo(frame.left + frame.width, y);
      pen.stroke();
      pen.fillText(tick === 0 ? "0" : say(tick).replace(/\.0+ /, " "), frame.left - 4, y + 4);
    }
  }

  // A strip for each worker; the more it worked, the fuller its colour.
  function workers(frame, legend, shown) {
    const { pen } = frame;
    const rows = shown.workers.length;
    const height = frame.height / Math.max(rows, 1);
    const most = Math.max(0.05, ...points.flatMap(point => point.workers.map(worker => worker.busy)));
    pen.fillStyle = frame.ink("a");
    points.forEach((point, index) => {
      // Whole pixels, or strips would shine through each other.
      const x = Math.round(across(frame, point.at_ms));
      const from = Math.max(index ? Math.round(across(frame, points[index - 1].at_ms)) : x - 1, frame.left);
      point.workers.forEach((worker, row) => {
        const top = Math.round(frame.top + row * height);
        const bottom = Math.round(frame.top + (row + 1) * height) - 1;
        pen.globalAlpha = Math.min(worker.busy / most, 1);
        if (x > from) pen.fillRect(from, top, x - from, Math.max(bottom - top, 1));
      });
    });
    pen.globalAlpha = 1;
    pen.fillStyle = frame.ink("faint");
    pen.textAlign = "right";
    const every = Math.ceil(12 / height);
    for (let row = 0; row < rows; row += every) {
      pen.fillText(String(row), frame.left - 4, frame.top + row * height + Math.min(height / 2 + 4, 12));
    }
    minutes(frame);
    const busy = shown.workers.map(worker => worker.busy);
    const [least, highest] = [Math.min(...busy), Math.max(...busy)];
    legend.textContent = `least ${share(least)}, most ${share(highest)}; full colour is ${share(most)}`;
  }

  return { begin, take, draw };
})();
