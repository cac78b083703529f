// A time series with a title, the latest values as text, and marks of events.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { Mark } from "./types";

export interface Line {
  label: string;
  /** A custom property of the style sheet. */
  color: string;
  values: (number | null)[];
}

interface Props {
  title: string;
  times: number[];
  lines: Line[];
  marks: Mark[];
  show: (value: number | null) => string;
}

const HEIGHT = 170;
const SPAN_S = 300;
const FONT = "12px system-ui, sans-serif";

/** The colour that a custom property has in the theme of the page: a canvas reads no `light-dark()`. */
function color({ root }: uPlot, name: string): string {
  root.style.color = `var(${name})`;
  return getComputedStyle(root).color;
}

function drawMarks(plot: uPlot, marks: Mark[]): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.setLineDash([4, 4]);
  for (const mark of marks) {
    const x = Math.round(plot.valToPos(mark.at_ms / 1000, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = color(plot, mark.kind === "neutral" ? "--soft" : `--${mark.kind}`);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

export function Chart({ title, times, lines, marks, show }: Props) {
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const current = useRef({ marks, show });
  current.current = { marks, show };

  useEffect(() => {
    const element = holder.current;
    if (!element) return;
    const axis = {
      stroke: (self: uPlot) => color(self, "--soft"),
      font: FONT,
      grid: { stroke: (self: uPlot) => color(self, "--line"), width: 1 },
      ticks: { stroke: (self: uPlot) => color(self, "--line"), width: 1 },
    };
    const options: uPlot.Options = {
      width: Math.max(element.clientWidth, 100),
      height: HEIGHT,
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: { range: (_, __, max) => [max - SPAN_S, max] },
        y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] },
      },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map((at) => new Date(at * 1000).toLocaleTimeString("en-GB")), space: 80 },
        { ...axis, size: 74, values: (_, ticks) => ticks.map((value) => current.current.show(value)) },
      ],
      series: [
        {},
        ...lines.map((line) => ({
          label: line.label,
          stroke: (self: uPlot) => color(self, line.color),
          width: 2,
          points: { show: false },
        })),
      ],
      hooks: { draw: [(self) => drawMarks(self, current.current.marks)] },
    };
    const created = new uPlot(options, [[], ...lines.map(() => [])] as uPlot.AlignedData, element);
    plot.current = created;
    const observer = new ResizeObserver(() => {
      created.setSize({ width: Math.max(element.clientWidth, 100), height: HEIGHT });
    });
    observer.observe(element);
    const repaint = () => created.redraw(false, true);
    const scheme = window.matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", repaint);
    window.addEventListener("themechange", repaint);
    return () => {
      observer.disconnect();
      scheme.removeEventListener("change", repaint);
      window.removeEventListener("themechange", repaint);
      created.destroy();
      plot.current = null;
    };
  }, []);

  useEffect(() => {
    plot.current?.setData([times, ...lines.map((line) => line.values)] as uPlot.AlignedData);
  });

  const latest = lines.map((line) => ({ ...line, text: show(line.values.at(-1) ?? null) }));
  const spoken = latest.map((line) => `${line.label} ${line.text}`).join(", ");
  return (
    <figure class="chart">
      <figcaption>
        <b>{title}</b>
        {latest.map((line) => (
          <span key={line.label}>
            <i class="key" style={{ background: `var(${line.color})` }} aria-hidden="true" />
            {line.label} <output>{line.text}</output>
          </span>
        ))}
      </figcaption>
      <div ref={holder} role="img" aria-label={`${title} of the last five minutes, now: ${spoken}`} />
    </figure>
  );
}
