import tseslint from 'typescript-eslint';

const impure = [
  { object: 'Date', property: 'now', message: 'Pass the time in (Clock).' },
  { object: 'Math', property: 'random', message: 'Pass randomness in.' },
  { object: 'performance', property: 'now', message: 'Pass the time in (Clock).' },
  { object: 'crypto', property: 'randomUUID', message: 'Pass ids in.' },
];

export default tseslint.config(
  { ignores: ['dist/**', 'build/**', 'coverage/**', '.tmp/**'] },
  {
    files: ['**/*.ts', '**/*.tsx'],
    extends: [...tseslint.configs.recommendedTypeChecked],
    languageOptions: {
      parserOptions: {
        project: [
          './tsconfig.node.json',
          './tsconfig.electron.json',
          './tsconfig.renderer.json',
          './tsconfig.browser.json',
        ],
        tsconfigRootDir: import.meta.dirname,
      },
    },
    rules: {
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/restrict-template-expressions': 'off',
      'no-restricted-syntax': [
        'error',
        { selector: 'ExportDefaultDeclaration', message: 'Named exports only.' },
        { selector: 'TSEnumDeclaration', message: 'Use a union of literals.' },
      ],
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      'no-console': 'error',
    },
  },
  {
    // Pure code: time, ids and chance are arguments.
    files: [
      'src-main/shared/**/*.ts',
      'src-main/controller/scheduler/**/*.ts',
      'src-main/controller/placement/**/*.ts',
      'src-main/controller/state/*.ts',
      'src-worker/agent/**/*.ts',
    ],
    ignores: ['**/*.test.ts'],
    rules: {
      'no-restricted-properties': ['error', ...impure],
      'no-restricted-globals': [
        'error',
        { name: 'setTimeout', message: 'Pure code does not wait.' },
        { name: 'setInterval', message: 'Pure code does not wait.' },
        { name: 'process', message: 'Pure code does not know the process.' },
      ],
      'no-restricted-syntax': [
        'error',
        { selector: 'ExportDefaultDeclaration', message: 'Named exports only.' },
        { selector: 'TSEnumDeclaration', message: 'Use a union of literals.' },
        { selector: "NewExpression[callee.name='Date'][arguments.length=0]", message: 'Pass the time in.' },
      ],
    },
  },
  {
    // Scripts run before anything is installed, so they are plain JavaScript; tsc checks them too.
    files: ['**/*.mjs'],
    extends: [...tseslint.configs.recommended],
    rules: {
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
    },
  },
  { files: ['vitest.config.ts'], rules: { 'no-restricted-syntax': 'off' } },
  {
    files: ['**/*.test.ts', '**/*.test.tsx', 'e2e/**/*.ts'],
    rules: {
      'no-console': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
    },
  },
);
