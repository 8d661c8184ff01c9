"use strict";
(() => {
  const data = JSON.parse(document.getElementById("charts").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const drawn = [];

  const colours = (light) => light
    ? { ink: "#1b1f24", soft: "#4a535e", line: "#d5dbe1", blue: "#1a66b8", red: "#b3261e", grey: "#66717d", ground: "#ffffff" }
    : { ink: "#e8ebef", soft: "#b3bcc7", line: "#3b444f", blue: "#6fb1f5", red: "#ff9c94", grey: "#828d99", ground: "#14181d" };

  const elapsed = (value) => {
    const sign = value < 0 ? "-" : "";
    const whole = Math.abs(value);
    if (whole < 60) return `${sign}${+whole.toFixed(whole < 10 ? 1 : 0)}s`;
    const minutes = Math.floor(whole / 60);
    const rest = Math.round(whole % 60);
    if (minutes < 60) return rest ? `${sign}${minutes}m${String(rest).padStart(2, "0")}s` : `${sign}${minutes}m`;
    const left = minutes % 60;
    return left ? `${sign}${Math.floor(minutes / 60)}h${String(left).padStart(2, "0")}m` : `${sign}${minutes / 60}h`;
  };
  /* Numbers as people write them: 0.00008 is 8e-5, 20000 is 20,000, 3000000 is 3e6. */
  const read = (value) => {
    const size = Math.abs(value);
    if (value !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential().replace("e+", "e").replace(/(\.\d{3})\d+/, "$1");
    return size >= 1000 ? value.toLocaleString("en-US") : String(+value.toPrecision(6));
  };
  const lasting = (value) => value === 0 ? "0" : value < 1 ? `${+(value * 1000).toPrecision(3)} ms` : value < 60 ? `${+value.toPrecision(3)} s` : elapsed(value);
  const placed = (axis, value) => axis === "seconds" ? elapsed(value) : `${axis.replace(/s$/, "")} ${+value.toFixed(2)}`;

  /* Round steps of time: an axis of seconds that counted by tens would have odd minutes and hours. */
  const timeStep = (end, parts) => {
    const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];
    return steps.find((step) => end / step <= parts) || steps[steps.length - 1];
  };

  const common = (colour) => ({
    animation: false,
    backgroundColor: "transparent",
    textStyle: { color: colour.ink, fontFamily: "system-ui, sans-serif", fontSize: 12 },
    tooltip: {
      renderMode: "richText", confine: true, backgroundColor: colour.ground, borderColor: colour.line,
      textStyle: { color: colour.ink },
    },
  });
  const positions = (axis, end, colour, width, more, whole = false) => ({
    type: "value", min: 0, max: end || 1,
    ...(axis === "seconds" && end >= 1 ? { interval: timeStep(end, Math.max(3, Math.floor(width / 110))) } : {}),
    ...(whole ? { minInterval: 1 } : {}),
    axisLabel: { color: colour.soft, hideOverlap: true, showMaxLabel: whole, formatter: (value) => axis === "seconds" ? elapsed(value) : read(value) },
    axisLine: { lineStyle: { color: colour.line } },
    splitLine: { lineStyle: { color: colour.line, type: "dotted" } },
    name: axis === "seconds" ? "since the beginning" : axis, nameLocation: "middle", nameGap: 26,
    nameTextStyle: { color: colour.soft },
    ...more,
  });
  const amounts = (name, colour, formatter, more) => ({
    type: "value", scale: true, name, nameLocation: "end", nameTextStyle: { color: colour.soft, align: "left" },
    axisLabel: { color: colour.soft, formatter }, splitLine: { lineStyle: { color: colour.line } }, ...more,
  });
  const marked = (at, text, colour, end, position, width) => ({
    silent: true, symbol: "none", lineStyle: { color: colour.red, type: "dashed", width: 2 },
    label: {
      color: colour.red, fontWeight: "bold", formatter: text, position,
      align: at > (width < 500 ? 0.5 : 0.8) * end ? "right" : at < 0.2 * end ? "left" : "center",
    },
    data: [{ xAxis: at }],
  });

  const timeline = (chart, colour, width) => {
    const phases = [...new Set(chart.phases.map((phase) => phase[0]))];
    const rows = [...(phases.length ? ["phases"] : []), ...chart.rows];
    const offset = phases.length ? 1 : 0;
    const incident = chart.incident;
    const spans = [
      ...chart.phases.map(([name, from, to]) => [0, from, to, name]),
      ...chart.spans.map(([row, from, to]) => [row + offset, from, to, ""]),
    ];
    const failed = incident && incident.row !== null ? incident.row + offset : -1;
    const bar = (params, api) => {
      const row = api.value(0);
      const from = api.coord([api.value(1), row]);
      const to = api.coord([api.value(2), row]);
      const height = Math.max(1, api.size([0, 1])[1] * 0.7);
      const area = params.coordSys;
      const rect = echarts.graphic.clipRectByRect(
        { x: from[0], y: from[1] - height / 2, width: Math.max(2, to[0] - from[0]), height }, area);
      if (!rect) return undefined;
      const phase = spans[params.dataIndex][3];
      const fill = phase ? colour.grey : row === failed ? colour.red : colour.blue;
      return {
        type: "rect", shape: rect, style: { fill, stroke: colour.ground, lineWidth: height > 5 ? 1 : 0 },
        ...(phase && rect.width > 9 * phase.length
          ? { textContent: { style: { text: phase, fill: colour.ground } }, textConfig: { position: "inside" } } : {}),
      };
    };
    const crowded = rows.length > 40;
    const short = (row) => width < 500 ? row.replace(/^rank /, "").replace(" on ", " · ") : row;
    const longest = rows.reduce((most, row) => Math.max(most, short(row).length), 0);
    const left = Math.min(width * 0.34, 14 + 6.6 * longest);
    return {
      ...common(colour),
      tooltip: {
        ...common(colour).tooltip,
        formatter: (each) => {
          const [row, from, to, phase] = each.value;
          return `${phase || rows[row]}: ${placed(chart.axis, from)} to ${placed(chart.axis, to)}`;
        },
      },
      grid: { left, right: crowded ? 46 : 16, top: 34, bottom: 46 },
      xAxis: positions(chart.axis, chart.end, colour, width - left),
      yAxis: {
        type: "category", data: rows, inverse: true,
        axisLabel: {
          color: colour.soft, width: left - 14, overflow: "truncate", formatter: short,
          interval: Math.ceil(rows.length * 15 / 630) - 1,
        },
        axisTick: { show: false }, axisLine: { lineStyle: { color: colour.line } },
      },
      dataZoom: crowded
        ? [{ type: "slider", yAxisIndex: 0, right: 8, width: 18, showDetail: false, brushSelect: false, textStyle: { color: colour.soft } }]
        : [],
      series: [
        {
          type: "custom", progressive: 0, renderItem: bar, encode: { x: [1, 2], y: 0 }, dimensions: ["row", "from", "to", "phase"], data: spans,
          ...(incident ? { markLine: marked(incident.at, `incident: ${incident.who}`, colour, chart.end, "start", width) } : {}),
        },
        ...(failed >= 0 ? [{
          type: "scatter", symbol: "diamond", symbolSize: 13, silent: true, z: 5,
          itemStyle: { color: colour.red, borderColor: colour.ground, borderWidth: 1.5 },
          data: [[incident.at, failed]],
        }] : []),
      ],
    };
  };

  const incidentOn = (axis, colour, end) => {
    const incident = data.timeline && data.timeline.incident;
    return incident && axis === data.timeline.axis && axis === "seconds" ? { markLine: marked(incident.at, "incident", colour, end, "end", innerWidth) } : {};
  };

  const loss = (chart, colour, width) => ({
    ...common(colour),
    tooltip: { ...common(colour).tooltip, trigger: "axis", formatter: ([each]) => `${placed(chart.axis, each.value[0])}: ${read(each.value[1])}` },
    grid: { left: 56, right: 24, top: 34, bottom: 46 },
    xAxis: positions(
      chart.axis, undefined, colour, width, { min: "dataMin", max: "dataMax" },
      chart.axis !== "seconds" && chart.values.every((value) => Number.isInteger(value[0])),
    ),
    yAxis: amounts(chart.name, colour, read),
    series: [{
      type: "line", data: chart.values, showSymbol: chart.values.length < 40, symbolSize: 6,
      lineStyle: { width: 2, color: colour.blue }, itemStyle: { color: colour.blue }, ...incidentOn(chart.axis, colour, chart.values[chart.values.length - 1][0]),
    }],
  });

  const pace = (chart, colour, width) => {
    const end = Math.max(...chart.values.map((value) => value[0]), data.timeline ? data.timeline.end : 0);
    const line = (name, column, more) => ({
      type: "line", name, data: chart.values.map((value) => [value[0], value[column], value[3]]), showSymbol: false,
      ...more,
    });
    return {
      ...common(colour),
      tooltip: {
        ...common(colour).tooltip, trigger: "axis",
        formatter: (all) => [
          placed("seconds", all[0].value[0]),
          ...all.map((each) => `${each.seriesName}: ${lasting(each.value[1])}${each.seriesName === "slowest rank" && each.value[2] !== null ? ` (rank ${each.value[2]})` : ""}`),
        ].join("\n"),
      },
      legend: chart.several ? { top: 0, left: "center", textStyle: { color: colour.ink } } : { show: false },
      grid: { left: 56, right: 16, top: chart.several ? 62 : 34, bottom: 46 },
      xAxis: positions("seconds", end, colour, width),
      yAxis: amounts(`time of ${chart.each}`, colour, lasting, { min: 0 }),
      series: chart.several
        ? [
          line("slowest rank", 1, { lineStyle: { color: colour.red, width: 1.5 }, itemStyle: { color: colour.red }, ...incidentOn("seconds", colour, end) }),
          line("mean of the ranks", 2, { lineStyle: { color: colour.blue, width: 2, type: "dashed" }, itemStyle: { color: colour.blue } }),
        ]
        : [line(`time of ${chart.each}`, 2, { lineStyle: { color: colour.blue, width: 2 }, itemStyle: { color: colour.blue }, ...incidentOn("seconds", colour, end) })],
    };
  };

  const network = (chart, colour) => ({
    ...common(colour),
    tooltip: { ...common(colour).tooltip, trigger: "axis", formatter: ([each]) => `${each.name}: ${read(each.value)} GB/s` },
    grid: { left: 56, right: 24, top: 34, bottom: 46 },
    xAxis: {
      type: "category", data: chart.sizes, name: "reduced by each rank", nameLocation: "middle", nameGap: 26,
      nameTextStyle: { color: colour.soft }, axisLabel: { color: colour.soft, hideOverlap: true },
      axisLine: { lineStyle: { color: colour.line } },
    },
    yAxis: amounts("GB/s", colour, read, { min: 0, max: chart.limit === null ? undefined : Math.max(chart.limit, ...chart.values) }),
    series: [{
      type: "line", data: chart.values, symbolSize: 6, lineStyle: { width: 2, color: colour.blue }, itemStyle: { color: colour.blue },
      ...(chart.limit === null ? {} : { markLine: {
        silent: true, symbol: "none", lineStyle: { color: colour.grey, type: "dashed" },
        label: { color: colour.soft, position: "insideStartTop", formatter: (each) => each.name },
        data: [
          { name: `limit ${read(chart.limit)} GB/s`, yAxis: chart.limit, label: { position: "insideStartBottom" } },
          { name: `enough ${read(chart.enough)} GB/s`, yAxis: chart.enough },
        ],
      } }),
    }],
  });

  const options = { timeline, loss, pace, network };
  const draw = (light) => {
    while (drawn.length) drawn.pop().dispose();
    for (const [name, option] of Object.entries(options)) {
      const place = document.getElementById(name);
      if (!place || !data[name]) continue;
      const rows = data.timeline ? data.timeline.rows.length + (data.timeline.phases.length ? 1 : 0) : 0;
      place.style.height = `${name === "timeline" ? Math.min(720, 90 + rows * Math.max(14, 30 - rows)) : 300}px`;
      const chart = echarts.init(place, null, { renderer: "canvas" });
      chart.setOption(option(data[name], colours(light), place.clientWidth));
      // At once, not with the next frame: a page that is being printed has no next frame.
      chart.getZr().flush();
      drawn.push(chart);
    }
    document.documentElement.dataset.drawn = String(drawn.length);
  };

  let width = innerWidth;
  draw(!dark.matches);
  dark.addEventListener("change", () => draw(!dark.matches));
  addEventListener("beforeprint", () => draw(true));
  addEventListener("afterprint", () => draw(!dark.matches));
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    draw(!dark.matches);
  });
})();
