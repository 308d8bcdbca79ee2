// The colours of the heat map: classes of "time over the best", sampled evenly
// from cividis, which is perceptually uniform, reads the same with the common
// colour-vision deficiencies and falls steadily in luminance, so that it works
// in black and white. Bright is fast.

export interface HeatClass {
  upTo: number;      // the ratio's upper limit
  label: string;
  fill: string;
  ink: string;
}

const cividis = ['#fee838', '#e1cc55', '#c3b369', '#a59c74', '#8a8678', '#707173', '#575d6d',
  '#3b496c', '#123570', '#00224e'];
const limits = [1.01, 1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 2, 3, Infinity];

export const heatClasses: HeatClass[] = limits.map((upTo, i) => ({
  upTo, label: upTo === Infinity ? '> 3' : `≤ ${upTo}`, fill: cividis[i],
  ink: i <= 4 ? '#000000' : '#ffffff',
}));

export function heatClass(ratio: number): HeatClass {
  let i = 0;
  while (ratio > heatClasses[i].upTo) i++;
  return heatClasses[i];
}

// One letter for each way to fail, so that failures need no colour.
export const outcomeLetters: Record<string, string> = {
  compile_error: 'C', compile_timeout: 'c', compiler_crash: 'X', launch_error: 'L',
  wrong_result: 'W', guard_overwritten: 'G', not_repeatable: 'R', fault: 'F', timeout: 'T',
  out_of_memory: 'M', interrupted: 'I', screened_out: 's',
};
