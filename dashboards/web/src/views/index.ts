// The views, in the order of the navigation.
import type {Ctx} from '../context';
import {coverageView} from './coverage';
import {healthView} from './health';
import {heatView} from './heat';
import {overviewView} from './overview';
import {regressionsView} from './regressions';
import {rooflineView} from './roofline';
import {sessionsView} from './sessions';
import {speedupView} from './speedup';
import {tradeoffView} from './tradeoff';
import {trialView} from './trial';
import {trialsView} from './trials';

export interface View {
  id: string;
  name: string;
  needs: 'none' | 'class' | 'problem';
  render: (ctx: Ctx, root: HTMLElement) => Promise<void>;
}

export const views: View[] = [
  {id: 'overview', name: 'Overview', needs: 'none', render: overviewView},
  {id: 'heat', name: 'Heat map', needs: 'problem', render: heatView},
  {id: 'roofline', name: 'Roofline', needs: 'problem', render: rooflineView},
  {id: 'trials', name: 'Trials', needs: 'problem', render: trialsView},
  {id: 'trial', name: 'Trial', needs: 'none', render: trialView},
  {id: 'speedup', name: 'Tuned vs default', needs: 'problem', render: speedupView},
  {id: 'tradeoff', name: 'Kernels per layer', needs: 'problem', render: tradeoffView},
  {id: 'coverage', name: 'Coverage', needs: 'class', render: coverageView},
  {id: 'sessions', name: 'Sessions', needs: 'class', render: sessionsView},
  {id: 'health', name: 'Device health', needs: 'class', render: healthView},
  {id: 'regressions', name: 'Regressions', needs: 'class', render: regressionsView},
];
