// Draws one dashboard with Grafana's own components, from the answers of a real Prometheus. No
// package has the plugins of the panels, so this applies their options, as far as the dashboards use
// them. window.drawing says what to draw; window.drawn gives the problems when all is drawn.
import '@fontsource/inter/latin.css';
import 'uplot/dist/uPlot.min.css';
import {createRoot} from 'react-dom/client';

// require: as ES modules, the packages do not find the default exports of others.
const {
  applyFieldOverrides, createTheme, dateTime, FieldConfigOptionsRegistry, FieldType, getDisplayValueAlignmentFactors,
  getFieldDisplayValues, standardFieldConfigEditorRegistry, standardTransformers, standardTransformersRegistry,
  ThemeContext, toDataFrame, transformDataFrame,
} = require('@grafana/data');
const {BarGauge, BigValue, GlobalStyles, PanelChrome, Table, TimeSeries, VizRepeater} = require('@grafana/ui');

const {dashboard, prometheus, minutes, interval} = window.drawing;
const theme = createTheme({colors: {mode: 'dark'}});
const step = Math.max(interval, minutes * 60 / 300);
const to = Math.floor(Date.now() / 1000 / step) * step, from = to - minutes * 60;
const timeRange = {from: dateTime(from * 1000), to: dateTime(to * 1000), raw: {from: `now-${minutes}m`, to: 'now'}};
// What Grafana takes for an option that a dashboard leaves out.
const defaults = {
  justifyMode: 'auto',
  valueMode: 'color', showUnfilled: true, showHeader: true, cellHeight: 'sm', minVizWidth: 8, minVizHeight: 16,
};
dashboard.panels.forEach(panel => { panel.options = {...defaults, ...panel.options}; });
const noVariables = text => text;

// The settings of a field that a panel or an override may have.
const settings = ['unit', 'min', 'max', 'decimals', 'noValue', 'thresholds', 'mappings', 'color', 'custom.drawStyle',
  'custom.lineInterpolation', 'custom.lineWidth', 'custom.fillOpacity', 'custom.showPoints', 'custom.spanNulls',
  'custom.stacking', 'custom.thresholdsStyle', 'custom.cellOptions', 'custom.align', 'custom.filterable'];
const fieldConfigRegistry = new FieldConfigOptionsRegistry(() => settings.map(id => ({
  id, name: id, path: id.replace('custom.', ''), isCustom: id.startsWith('custom.'),
  process: value => value, shouldApply: field => field.type !== FieldType.time,
})));
standardFieldConfigEditorRegistry.setInit(() => []);
const organize = standardTransformers.organizeFieldsTransformer;
standardTransformersRegistry.setInit(() => [{id: organize.id, name: organize.name, transformation: async () => organize}]);

async function ask(target) {
  const query = new URLSearchParams({query: target.expr.replaceAll('$__rate_interval', `${4 * interval}s`)});
  if (target.range) {
    query.set('start', from); query.set('end', to); query.set('step', step);
  } else {
    query.set('time', Date.now() / 1000);
  }
  const url = `${prometheus}/api/v1/query${target.range ? '_range' : ''}`;
  const answer = await (await fetch(`${url}?${query}`).catch(error => { throw new Error(`${url}: ${error.message}`); })).json();
  if (answer.status !== 'success') throw new Error(`${target.expr}: ${answer.error}`);
  return answer.data.result;
}

const named = (legend, labels) => legend.replace(/{{(\w+)}}/g, (_, label) => labels[label] ?? '');

// framesOf gives the answers the form in which Grafana's data source does.
async function framesOf(panel) {
  const frames = [];
  for (const target of panel.targets) {
    const series = await ask(target);
    if (target.format === 'table') {
      const labels = [...new Set(series.flatMap(s => Object.keys(s.metric)))];
      frames.push(toDataFrame({refId: target.refId, fields: [
        {name: 'Time', type: FieldType.time, values: series.map(s => s.value[0] * 1000)},
        ...labels.map(name => ({name, type: FieldType.string, values: series.map(s => s.metric[name] ?? '')})),
        {name: 'Value', type: FieldType.number, values: series.map(s => Number(s.value[1]))},
      ]}));
      continue;
    }
    for (const s of series) {
      const samples = new Map((s.values ?? [s.value]).map(([at, value]) => [Math.round(at * 1000), Number(value)]).filter(([, value]) => !Number.isNaN(value)));
      const times = target.range ? Array.from({length: minutes * 60 / step + 1}, (_, i) => Math.round((from + i * step) * 1000)) : [...samples.keys()];
      frames.push(toDataFrame({refId: target.refId, fields: [
        {name: 'Time', type: FieldType.time, values: times},
        {name: 'Value', type: FieldType.number, labels: s.metric, values: times.map(t => samples.get(t) ?? null),
          config: {displayNameFromDS: named(target.legendFormat, s.metric)}},
      ]}));
    }
  }
  const transformed = await new Promise((resolve, reject) =>
    transformDataFrame(panel.transformations ?? [], frames).subscribe({next: resolve, error: reject}));
  return applyFieldOverrides({
    data: transformed, fieldConfig: panel.fieldConfig, fieldConfigRegistry, theme, replaceVariables: noVariables, timeZone: 'utc',
  });
}

const draw = {
  stat: (panel, data, width, height) => repeat(panel, data, width, height, ({value, alignmentFactors, ...size}) =>
    <BigValue value={value.display} theme={theme} colorMode={panel.options.colorMode} graphMode={panel.options.graphMode}
      justifyMode={panel.options.justifyMode} textMode={panel.options.textMode} alignmentFactors={alignmentFactors} {...size}/>),
  bargauge: (panel, data, width, height) => repeat(panel, data, width, height, ({value, orientation, alignmentFactors, ...size}) =>
    <BarGauge value={value.display} field={value.field} display={value.view?.getFieldDisplayProcessor(value.colIndex ?? 0)}
      theme={theme} orientation={orientation} displayMode={panel.options.displayMode} valueDisplayMode={panel.options.valueMode}
      showUnfilled={panel.options.showUnfilled} alignmentFactors={alignmentFactors} {...size}/>),
  timeseries: (panel, data, width, height) => <TimeSeries frames={data} structureRev={1} width={width} height={height}
    timeRange={timeRange} timeZone="utc" legend={panel.options.legend} options={panel.options} replaceVariables={noVariables}/>,
  table: (panel, data, width, height) => data[0]?.length
    ? <Table data={data[0]} width={width} height={height} noHeader={!panel.options.showHeader} cellHeight={panel.options.cellHeight}/>
    : <div>{panel.fieldConfig.defaults.noValue}</div>,
};

function repeat(panel, data, width, height, renderValue) {
  const getValues = () => getFieldDisplayValues({
    data, fieldConfig: panel.fieldConfig, reduceOptions: panel.options.reduceOptions, replaceVariables: noVariables, theme, timeZone: 'utc',
  });
  return <VizRepeater width={width} height={height} source={data} getValues={getValues} renderValue={renderValue} renderCounter={0}
    orientation={panel.options.orientation} autoGrid getAlignmentFactors={getDisplayValueAlignmentFactors} itemSpacing={8}
    minVizWidth={panel.options.minVizWidth} minVizHeight={panel.options.minVizHeight}/>;
}

// A unit of the grid is 30 pixels high, with 8 between the panels.
function place({x, y, w, h}) {
  const column = (window.innerWidth - 16 + 8) / 24;
  return {position: 'absolute', left: 8 + x * column, top: 8 + y * 38, width: w * column - 8, height: h * 38 - 8};
}

function Panel({panel, data}) {
  const at = place(panel.gridPos);
  if (panel.type === 'row') return <div style={{...at, fontWeight: 500, paddingTop: 4}}>{panel.title}</div>;
  return <div style={at} data-panel={panel.title}>
    <PanelChrome title={panel.title} width={at.width} height={at.height}>
      {(width, height) => data.length || panel.type !== 'timeseries' ? draw[panel.type](panel, data, width, height) : <div>No data</div>}
    </PanelChrome>
  </div>;
}

const frame = () => new Promise(requestAnimationFrame);

async function drawn() {
  const data = await Promise.all(dashboard.panels.map(panel => panel.type === 'row' ? [] : framesOf(panel)));
  const problems = dashboard.panels.filter((p, i) => !data[i].length && p.type !== 'row' && p.type !== 'table').map(p => `${p.title} has no data`);
  await Promise.all([400, 500].map(weight => document.fonts.load(`${weight} 14px Inter`)));
  const bottom = Math.max(...dashboard.panels.map(p => p.gridPos.y + p.gridPos.h));
  createRoot(document.getElementById('root')).render(<ThemeContext.Provider value={theme}><GlobalStyles/>
    <div style={{color: theme.colors.text.primary, fontFamily: theme.typography.fontFamily, fontSize: 14,
      background: theme.colors.background.canvas, position: 'relative', height: 8 + bottom * 38}}>
      {dashboard.panels.map((panel, i) => <Panel key={panel.id} panel={panel} data={data[i]}/>)}
    </div></ThemeContext.Provider>);
  const graphs = dashboard.panels.filter((p, i) => p.type === 'timeseries' && data[i].length).length;
  while (document.querySelectorAll('canvas').length < graphs) await frame();
  await frame();
  for (const panel of document.querySelectorAll('[data-panel]')) {
    for (const e of panel.querySelectorAll('*')) {
      if (e.childElementCount === 0 && e.textContent && e.scrollWidth > e.clientWidth && getComputedStyle(e).overflow !== 'visible')
        problems.push(`${panel.dataset.panel}: “${e.textContent}” is cut off`);
    }
  }
  return problems;
}
window.drawn = drawn();
