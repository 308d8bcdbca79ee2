// The views, in the order of the navigation.
import type {Ctx} from '../context';
import {heatView} from './heat';
import {overviewView} from './overview';
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
  {id: 'trials', name: 'Trials', needs: 'problem', render: trialsView},
  {id: 'trial', name: 'Trial', needs: 'none', render: trialView},
];
